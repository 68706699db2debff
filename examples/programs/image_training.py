"""An image model in channels-last, forward, backward and optimizer step: timm's where it is installed.

warmgraph run examples/programs/image_training.py
"""

import first_call
import torch
from torch import nn

try:
    import timm
except (ImportError, RuntimeError):  # no torchvision, or one built for another torch
    timm = None


def make() -> nn.Module:
    if timm is not None:
        return timm.create_model("resnet10t", num_classes=10)
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10)
    )


def main() -> None:
    torch.manual_seed(0)
    model = make().to(memory_format=torch.channels_last).train()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(4, 3, 64, 64).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (4,))
    losses = []
    first_call.begin()
    for _ in range(2):
        out = compiled(images)
        loss = nn.functional.cross_entropy(getattr(out, "logits", out), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        first_call.done()
    first_call.report([*losses, *model.parameters(), *model.buffers()])


if __name__ == "__main__":
    main()
