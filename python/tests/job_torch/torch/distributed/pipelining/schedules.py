import csv
import re
from collections import namedtuple

Action = namedtuple("Action", "stage_index computation_type microbatch_index sub_actions", defaults=(None,))


class _PipelineSchedule:
    def __init__(self, stages, n_microbatches):
        self._n_microbatches = n_microbatches
        self._has_backward = True
        self.losses = 0

    def _maybe_compute_loss(self, stage, output, target_mbs, mb_index):
        if stage.is_last:
            self.losses += 1

    def eval(self):
        self._has_backward = False
        try:
            self.step()
        finally:
            self._has_backward = True


class PipelineScheduleSingle(_PipelineSchedule):
    def __init__(self, stage, n_microbatches):
        super().__init__([stage], n_microbatches)
        self._stage = stage

    def step(self, *args, target=None, losses=None, **kwargs):
        self._stage.has_backward = self._has_backward
        self._step_microbatches()

    def forward(self, i):
        output = self._stage.forward_one_chunk(i, ())
        self._maybe_compute_loss(self._stage, output, None, i)

    def backward(self, i):
        if self._has_backward:
            self._stage.backward_one_chunk(i, loss=None, last_backward=False)


class ScheduleGPipe(PipelineScheduleSingle):
    def _step_microbatches(self):
        for i in range(self._n_microbatches):
            self.forward(i)
        for i in range(self._n_microbatches):
            self.backward(i)


class Schedule1F1B(PipelineScheduleSingle):
    def _step_microbatches(self):
        ahead = min(self._n_microbatches, self._stage.num_stages - self._stage.stage_index)
        for i in range(ahead):
            self.forward(i)
        for i in range(self._n_microbatches):
            self.backward(i)
            if ahead + i < self._n_microbatches:
                self.forward(ahead + i)


class PipelineScheduleMulti(_PipelineSchedule):
    def __init__(self, stages, n_microbatches, order):
        super().__init__(stages, n_microbatches)
        self._stages = stages
        self.pipeline_order_with_comms = order

    def step(self, *args, target=None, losses=None, **kwargs):
        for stage in self._stages:
            stage.has_backward = self._has_backward
        self._step_microbatches()


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    def __init__(self, stages, n_microbatches, order=None):
        super().__init__(stages, n_microbatches, order)
        self._comp_type_to_function_map = {}

    def _load_csv(self, filename, format="compute_only"):
        """One row a rank, cells as 0F3 or 1W2. Sends and receives are nothing here: ranks do not talk."""
        with open(filename, newline="") as file:
            cells = [[re.fullmatch(r"(\d+)([FBIW])(\d+)", cell).groups() for cell in row] for row in csv.reader(file)]
        self.pipeline_order_with_comms = {
            rank: [Action(int(stage), letter, int(microbatch)) for stage, letter, microbatch in row]
            for rank, row in enumerate(cells)}

    def _step_microbatches(self):
        by_index = {stage.stage_index: stage for stage in self._stages}
        for action in self.pipeline_order_with_comms[self._stages[0].group_rank]:
            for part in (action.sub_actions or (action,)) if action else ():
                if part.computation_type in self._comp_type_to_function_map:
                    self._comp_type_to_function_map[part.computation_type](part, None)
                else:
                    self.perform(by_index[part.stage_index], part)

    def perform(self, stage, action):
        i = action.microbatch_index
        if action.computation_type == "F":
            self._maybe_compute_loss(stage, stage.forward_one_chunk(i, ()), None, i)
        elif action.computation_type in "BI":
            if stage.has_backward:
                stage.backward_one_chunk(i, full_backward=action.computation_type == "B")
        elif action.computation_type == "W" and stage.has_backward:
            stage.backward_weight_one_chunk(i)
