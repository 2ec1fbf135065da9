"""A Lightning job that knows nothing of Lowgear: lightning_job.py ITERATIONS OUT. On the CPU, with accumulated gradients
and validation in between."""

import json
import os
import sys

import torch

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

ITERATIONS, OUT = int(sys.argv[1]), sys.argv[2]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.losses = []

    def training_step(self, batch, _):
        loss = self.layer(batch[0]).pow(2).mean()
        self.losses.append(loss.item().hex())
        return loss

    def validation_step(self, batch, _):
        self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)


torch.manual_seed(0)
rows = torch.utils.data.TensorDataset(torch.randn(2 * ITERATIONS * 4, 16))
model = Model()
trainer = pl.Trainer(accelerator="cpu", devices=1, max_steps=ITERATIONS, accumulate_grad_batches=2, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                     val_check_interval=10)
trainer.fit(model, torch.utils.data.DataLoader(rows, 4), torch.utils.data.DataLoader(rows, 8))
with open(os.path.join(OUT, "rank-0.json"), "w", encoding="utf-8") as file:
    json.dump({"losses": model.losses}, file)
