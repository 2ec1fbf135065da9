"""Has PyTorch read every FOLDER/*/schedule.csv, add messages and simulate the result: lowering.py FOLDER. Prints how many.
Fails where PyTorch refuses one, or would run other computations than the file lists."""

import csv
import sys
from pathlib import Path
from types import SimpleNamespace

from torch.distributed.pipelining.schedules import _Action, _PipelineScheduleRuntime, _simulate_comms_compute

COMPUTATIONS = ("F", "B", "I", "W")
MESSAGES = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")


def kind(action):
    return action.computation_type.value


def lower(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [[_Action.from_str(cell) for cell in row] for row in csv.reader(file)]
    actions = [action for row in rows for action in row]
    microbatches = 1 + max(action.microbatch_index for action in actions)
    count = 1 + max(action.stage_index for action in actions)
    for rank, row in enumerate(rows):
        stages = [SimpleNamespace(stage_index=index, num_stages=count, group_size=len(rows), group_rank=rank, submod=None,
                                  is_first=index == 0, is_last=index == count - 1)
                  for index in sorted({action.stage_index for action in row})]
        schedule = _PipelineScheduleRuntime(stages, microbatches, loss_fn=lambda output, target: None)
        schedule._load_csv(str(path), "compute_only")
        lowered = schedule.pipeline_order_with_comms
        assert [action for action in lowered[rank] if kind(action) in COMPUTATIONS] == row, f"{path}: rank {rank}"
    run = {rank: [action for action in lowered[rank] if kind(action) in COMPUTATIONS + MESSAGES] for rank in lowered}
    _simulate_comms_compute(run, lambda stage: schedule.stage_index_to_group_rank[stage], count)


paths = sorted(Path(sys.argv[1]).glob("*/schedule.csv"))
for order in paths:
    lower(order)
print(len(paths))
