"""A LightningModule whose model is compiled, trained in bfloat16 mixed precision.

warmgraph run examples/programs/lightning_module.py
"""

import logging
import warnings

import first_call
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.Flatten(), nn.LazyLinear(10)
        )
        self.losses: list[float] = []

    def training_step(self, batch, index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.body(images), labels)
        self.losses.append(loss.item())
        return loss

    def on_train_batch_end(self, *ignored):
        first_call.done()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0, verbose=False)
    model = Classifier()
    data = DataLoader(TensorDataset(torch.randn(32, 3, 16, 16), torch.randint(10, (32,))), batch_size=8)
    model.body(torch.randn(2, 3, 16, 16))
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", precision="bf16-mixed", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    compiled = torch.compile(model)
    first_call.begin()
    trainer.fit(compiled, data)
    first_call.report([*model.losses, *model.parameters()])


if __name__ == "__main__":
    main()
