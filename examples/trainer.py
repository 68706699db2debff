"""A Hugging Face Trainer, as it is: nothing in this file knows of warmgraph.

warmgraph run examples/trainer.py              # twice: the second run compiles nothing

The Trainer's `torch_compile_backend` takes a fixed list of names. `warmgraph run` needs none: it takes what would go to
Inductor. Needs `transformers` and `accelerate`; the model is tiny, its weights and data are random.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def main() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    data = [{"input_ids": row, "labels": row} for row in torch.randint(64, (8, 16))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            torch_compile=True,
            per_device_train_batch_size=4,
            max_steps=4,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
        )
        done = Trainer(model, arguments, train_dataset=data).train()
    print(f"{done.global_step} steps, loss {done.training_loss:.3f}")


if __name__ == "__main__":
    main()
