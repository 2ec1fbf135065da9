"""transformers' Trainer that knows nothing of Lowgear: trainer.py ITERATIONS OUT. A small GPT-2 with random weights on
the CPU, accumulated gradients, evaluations and checkpoints in between."""

import json
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ITERATIONS, OUT = int(sys.argv[1]), sys.argv[2]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        row = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": row, "labels": row}


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=16))
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model, train_dataset=Rows(), eval_dataset=torch.utils.data.Subset(Rows(), range(8)),
        args=TrainingArguments(folder, max_steps=ITERATIONS, per_device_train_batch_size=2, use_cpu=True, logging_steps=1,
                               gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=25, save_steps=25,
                               save_total_limit=1, report_to="none", disable_tqdm=True))
    trainer.train()
losses = [float(row["loss"]).hex() for row in trainer.state.log_history if "loss" in row]
weights = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
with open(os.path.join(OUT, "rank-0.json"), "w", encoding="utf-8") as file:
    json.dump({"losses": [*losses, weights.hex()]}, file)
