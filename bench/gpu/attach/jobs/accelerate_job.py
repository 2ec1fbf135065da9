"""A loop with Accelerate that knows nothing of Lowgear: accelerate_job.py ITERATIONS OUT. On the CPU, with accumulated
gradients."""

import json
import os
import sys

import torch
from accelerate import Accelerator

ITERATIONS, OUT = int(sys.argv[1]), sys.argv[2]

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Linear(16, 16)
rows = torch.utils.data.TensorDataset(torch.randn(2 * ITERATIONS * 4, 16))
model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 0.01),
                                             torch.utils.data.DataLoader(rows, 4))
losses = []
for (batch,) in data:
    with accelerator.accumulate(model):
        loss = model(batch).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item().hex())
with open(os.path.join(OUT, "rank-0.json"), "w", encoding="utf-8") as file:
    json.dump({"losses": losses}, file)
