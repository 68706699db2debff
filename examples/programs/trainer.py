"""A Hugging Face Trainer under bfloat16 autocast, with gradient checkpointing. With torchrun: DDP, several buckets.

warmgraph run examples/programs/trainer.py
torchrun --nproc-per-node=2 --no-python warmgraph run examples/programs/trainer.py
"""

import os
import tempfile

import first_call
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Clock(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 0:
            first_call.begin()

    def on_step_end(self, args, state, control, **kwargs):
        first_call.done()


def main() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=512, n_positions=32, n_embd=128, n_layer=4, n_head=4, use_cache=False)
    )
    data = [{"input_ids": row, "labels": row} for row in torch.randint(512, (16, 32))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            torch_compile=True,
            bf16=True,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            per_device_train_batch_size=2,
            max_steps=3,
            use_cpu=True,
            ddp_backend="gloo" if "RANK" in os.environ else None,
            ddp_bucket_cap_mb=1,
            ddp_find_unused_parameters=False,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
        )
        done = Trainer(model, arguments, train_dataset=data, callbacks=[Clock()]).train()
    first_call.report([done.training_loss, *model.parameters()])
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
