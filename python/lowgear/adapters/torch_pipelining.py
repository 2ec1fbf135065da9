"""PyTorch's torch.distributed.pipelining, 2.6 and later, and with it TorchTitan: three methods of a stage, the loss of
the last one, and `step` of the schedules. The loss belongs to the forward that it follows."""

import sys
from typing import Any, Dict, List, Optional

from .._units import LETTERS
from .job import Job, Place, Unit
from .marks import PIPELINE, Marks
from .wrapping import Unsupported, is_wrapped, require, wrap

MARKS_UNITS = True
_SOURCE = "torch_pipelining"
_KINDS = {LETTERS[kind]: kind for kind in ("forward", "backward", "input_gradient", "weight_gradient")}
_METHODS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


def _stages(schedule: Any) -> List[Any]:
    """This rank's."""
    return list(schedule._stages) if hasattr(schedule, "_stages") else [schedule._stage]


def _loop_of(schedule: Any) -> str:
    """The class whose loop runs the schedule."""
    return next(base.__name__ for base in type(schedule).__mro__ if "_step_microbatches" in vars(base))


def _gpipe(stage: int, stages: int, microbatches: int) -> List[Unit]:
    every = range(microbatches)
    return [("forward", stage, i) for i in every] + [("backward", stage, i) for i in every]


def _1f1b(stage: int, stages: int, microbatches: int) -> List[Unit]:
    ahead = min(stages - stage, microbatches)
    order: List[Unit] = [("forward", stage, i) for i in range(ahead)]
    for i in range(microbatches):
        order.append(("backward", stage, i))
        if ahead + i < microbatches:
            order.append(("forward", stage, ahead + i))
    return order


#: Loops that do not read `pipeline_order`. That of Schedule1F1B numbers the last rank's forwards from 1.
_LOOPS = {"ScheduleGPipe": _gpipe, "Schedule1F1B": _1f1b}


def _units(actions: List[Any]) -> List[Unit]:
    """The computations among a rank's actions, those of an overlapped pair one after the other."""
    units: List[Unit] = []
    for action in actions:
        if action is None:
            continue
        parts = getattr(action, "sub_actions", None) or (action,)
        for part in parts:
            letters = part.computation_type, getattr(part.computation_type, "value", None)  # 2.6 has the letter as text only
            kind = next((_KINDS[str(letter)] for letter in letters if str(letter) in _KINDS), None)
            if kind is not None:
                units.append((kind, part.stage_index, part.microbatch_index))
    return units


def orders_of(schedule: Any) -> List[List[Unit]]:
    """The units of every pipeline rank in one step, in order. Raises Unsupported where the schedule does not list them."""
    stage = _stages(schedule)[0]
    loop = _LOOPS.get(_loop_of(schedule))
    if loop is not None:
        return [loop(rank, stage.num_stages, schedule._n_microbatches) for rank in range(stage.num_stages)]
    table = getattr(schedule, "pipeline_order_with_comms", None) or getattr(schedule, "pipeline_order", None)
    if not table:
        raise Unsupported(f"{type(schedule).__name__} has no pipeline_order, which lists its units")
    return [_units(table[rank]) for rank in sorted(table)]


def _check(schedule: Any) -> None:
    """Raises Unsupported where units would not run through the observed methods."""
    for stage in _stages(schedule):
        for name in _METHODS:
            if not is_wrapped(getattr(type(stage), name)):
                raise Unsupported(f"{type(stage).__name__} has a {name} of its own, which is not observed")
    custom = [str(getattr(kind, "value", kind)) for kind in getattr(schedule, "_comp_type_to_function_map", None) or ()]
    replaced = sorted(kind for kind in custom if kind in _KINDS or kind == "OVERLAP_F_B")
    if replaced:
        raise Unsupported(f"{type(schedule).__name__} computes {', '.join(replaced)} by register_custom_function, "
                          "not by the methods of its stages")


class _Replicas:
    """Which of several pipelines this is. TorchTitan says how large its dimensions are; PyTorch itself has no registry:
    the ranks of the pipeline's group tell how pipelines are laid out."""

    def __init__(self) -> None:
        self.dimensions: Any = None

    def place(self, stage: Any) -> Place:
        distributed = sys.modules["torch"].distributed
        pp, pp_rank = stage.group_size, stage.group_rank
        world = distributed.get_world_size() if distributed.is_initialized() else pp
        if world == pp:
            return Place(pp_rank, pp)
        tp = getattr(self.dimensions, "tp", 1)
        replica = self._pipeline(distributed, stage, pp)
        return Place(pp_rank, pp, replica // tp, world // pp // tp, replica % tp, tp)

    @staticmethod
    def _pipeline(distributed: Any, stage: Any, pp: int) -> int:
        """Number of this pipeline among all, where their ranks are evenly apart."""
        ranks = distributed.get_process_group_ranks(stage.group)
        apart = ranks[1] - ranks[0] if pp > 1 else 1
        return ranks[0] // (apart * pp) * apart + ranks[0] % apart


class _Adapter:
    def __init__(self, marks: Marks):
        self.marks = marks
        self.replicas = _Replicas()
        self._schedule: Any = None
        self._job: Optional[Job] = None

    def job(self, schedule: Any) -> Job:
        if self._job is None or schedule is not self._schedule or schedule._n_microbatches != self._job.microbatches:
            place = self.replicas.place(_stages(schedule)[0])
            self._job = Job("torch.distributed.pipelining", place, self._orders(schedule), schedule._n_microbatches)
            self._schedule = schedule
        return self._job

    def _orders(self, schedule: Any) -> Optional[List[List[Unit]]]:
        try:
            _check(schedule)
            return orders_of(schedule)
        except Unsupported as error:
            self.marks.refuse(str(error))
            return None

    def step(self, arguments: Dict[str, Any]):
        schedule = arguments["self"]
        if schedule._has_backward:
            self.marks.begin(_SOURCE, PIPELINE, lambda: self.job(schedule))
            is_first = any(stage.is_first for stage in _stages(schedule))
            if is_first and self.marks.running(_SOURCE):
                self.marks.tell_inputs(arguments.get("kwargs") or {}, schedule._n_microbatches)
        else:
            self.marks.pause()  # an evaluation
        yield from self.marks.call()
        self.marks.end_unit()

    def forward(self, arguments: Dict[str, Any]):
        stage = arguments["self"]
        if not stage.is_last:
            yield from self._unit(stage, "forward", arguments["fwd_chunk_id"])
        elif stage.has_backward:
            self.marks.begin_unit(_SOURCE, "forward", stage.stage_index, arguments["fwd_chunk_id"])
            yield from self.marks.call()  # the unit ends after its loss

    def loss(self, arguments: Dict[str, Any]):
        yield from self.marks.call()
        if arguments["stage"].is_last:
            self.marks.end_unit()

    def backward(self, arguments: Dict[str, Any]):
        kind = "backward" if arguments["full_backward"] else "input_gradient"
        yield from self._unit(arguments["self"], kind, arguments["bwd_chunk_id"])

    def weight(self, arguments: Dict[str, Any]):
        yield from self._unit(arguments["self"], "weight_gradient", arguments["bwd_chunk_id"])

    def dimensions(self, arguments: Dict[str, Any]):
        yield
        self.replicas.dimensions = arguments["self"]

    def _unit(self, stage: Any, kind: str, microbatch: int):
        if stage.has_backward:
            yield from self.marks.unit(_SOURCE, kind, stage.stage_index, microbatch)


def install(module: Any, marks: Marks) -> None:
    adapter = marks.adapter(_SOURCE, lambda: _Adapter(marks))
    name = module.__name__.rpartition(".")[2]
    if name == "parallel_dims":
        wrap(module.ParallelDims, "__post_init__", {"self"}, adapter.dimensions, marks.fail)
    elif name == "stage":
        require(module, ["_PipelineStageBase"])
        stage = module._PipelineStageBase
        wrap(stage, "forward_one_chunk", {"self", "fwd_chunk_id"}, adapter.forward, marks.fail)
        wrap(stage, "backward_one_chunk", {"self", "bwd_chunk_id", "full_backward"}, adapter.backward, marks.fail)
        wrap(stage, "backward_weight_one_chunk", {"self", "bwd_chunk_id"}, adapter.weight, marks.fail)
    else:
        require(module, ["_PipelineSchedule", "PipelineScheduleSingle", "PipelineScheduleMulti"])
        wrap(module._PipelineSchedule, "_maybe_compute_loss", {"stage"}, adapter.loss, marks.fail)
        for base in (module.PipelineScheduleSingle, module.PipelineScheduleMulti):
            wrap(base, "step", {"self"}, adapter.step, marks.fail)

