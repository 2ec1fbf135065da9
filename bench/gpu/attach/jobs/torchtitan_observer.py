"""A user's module for TorchTitan's option --experimental.custom_import, which knows nothing of Lowgear: at the end of
training each rank writes to --job.dump_folder, the last option, which stages its model parts have computed, from hooks of
PyTorch, what its schedule lists, and the losses that TorchTitan gave to TensorBoard."""

import atexit
import gc
import glob
import json
import os
import sys

import torch
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.nn.modules.module import register_module_forward_pre_hook
from torchtitan.models.llama3 import Transformer

OUT = sys.argv[-1]
KINDS = {"F": "forward", "B": "backward", "I": "input_gradient", "W": "weight_gradient"}


def find_schedule():
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), _PipelineSchedule)]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} schedules of a pipeline instead of one")
    return found[0]


def listed_by(schedule, rank):
    """This rank's units in the order that PyTorch's table gives; None where the schedule has no table, or one that its
    loop does not read: that of Schedule1F1B numbers the last rank's forwards from 1."""
    if type(schedule).__name__ == "Schedule1F1B":
        return None
    actions = (getattr(schedule, "pipeline_order", None) or {}).get(rank)
    if actions is None:
        return None
    letters = [str(action).lstrip("0123456789")[:1] for action in actions if action is not None]  # such as 2F5
    units = [(KINDS.get(letter), action.stage_index, action.microbatch_index)
             for letter, action in zip(letters, filter(None, actions))]
    return [unit for unit in units if unit[0]]


class Seen:
    """What this rank runs, from its first forward on."""

    def __init__(self):
        self.forwards = []
        self.schedule = {}
        self.parts = {}

    def forward(self, module, _):
        if not isinstance(module, Transformer) or not torch.is_grad_enabled():
            return
        if not self.schedule:
            self.find()
        self.forwards.append(self.parts.get(id(module), -1))

    def find(self):
        schedule = find_schedule()
        stages = schedule._stages if hasattr(schedule, "_stages") else [schedule._stage]
        self.parts = {id(stage.submod): stage.stage_index for stage in stages}
        self.schedule = {"stages": sorted(self.parts.values()), "microbatches": schedule._n_microbatches,
                         "listed": listed_by(schedule, stages[0].group_rank)}

    def by_iteration(self):
        """Of the first iteration all that is more than the others, as it also finds out shapes."""
        each = self.schedule["microbatches"] * len(self.schedule["stages"])
        first = len(self.forwards) - (len(self.forwards) // each - 1) * each
        return [self.forwards[:first], *(self.forwards[at:at + each] for at in range(first, len(self.forwards), each))]

    def write(self):
        with open(os.path.join(OUT, f"rank-{os.environ['RANK']}.json"), "w", encoding="utf-8") as file:
            json.dump({"losses": losses(), "forwards": self.by_iteration(), **self.schedule}, file)


def losses():
    """Bits of the losses that this process has logged: one rank does."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = glob.glob(os.path.join(OUT, "**", f"events.*.{os.getpid()}.*"), recursive=True)
    if not files:
        return []
    events = EventAccumulator(files[0], size_guidance={"scalars": 0}).Reload()
    return [float(event.value).hex() for event in events.Scalars("loss_metrics/global_avg_loss")]


seen = Seen()
register_module_forward_pre_hook(seen.forward)
atexit.register(seen.write)
