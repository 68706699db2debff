"""A training loop with accelerate, in bfloat16, with a schedule and clipped gradients.

warmgraph run examples/programs/accelerate_loop.py
"""

import first_call
import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def main() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=512, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", dynamo_plugin=TorchDynamoPlugin(backend="inductor"))
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(torch.randint(512, (16, 32)), torch.randint(2, (16,))), batch_size=4)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 4)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    losses = []
    first_call.begin()
    for ids, labels in data:
        loss = model(input_ids=ids, labels=labels).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        first_call.done()
    first_call.report([*losses, *model.parameters()])


if __name__ == "__main__":
    main()
