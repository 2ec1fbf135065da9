"""DeepSpeed's pipeline engine, 0.8 and later, and Merak's fork of it: the entries of its table of instructions, and
`_exec_schedule`. A forward includes the loss."""

from typing import Any, Dict, Iterable, List, Optional, Tuple

from .job import Job, Place, Unit
from .marks import PIPELINE, Marks
from .wrapping import Unsupported, require, version_of, wrap

MARKS_UNITS = True
_SOURCE = "deepspeed pipeline"  # that of the engine without a pipeline is another
_UNITS = {"ForwardPass": "forward", "BackwardPass": "backward"}
_KNOWN = {
    "OptimizerStep", "ReduceGrads", "ReduceTiedGrads", "LoadMicroBatch", "ForwardPass", "BackwardPass",
    "SendActivation", "RecvActivation", "SendGrad", "RecvGrad",
}
#: Those of Merak that recompute a forward apart from its backward: to which unit it belongs is not certain.
_RECOMPUTING = {"PreCheckpointForwardPass", "RecomputeRecvGrad", "RestoreRecomputeStatus"}
_OF_MERAK = _KNOWN | {"SendActivationRecvGrad", "SendGradRecvActivation"} | _RECOMPUTING


def order_of(schedule: Iterable[Iterable[Any]], stage: int) -> List[Unit]:
    """The units among a schedule's steps of instructions: the n-th of a kind is of microbatch n.

    Raises Unsupported where an instruction is not known.
    """
    counts = dict.fromkeys(_UNITS, 0)
    units: List[Unit] = []
    for step in schedule:
        for command in step:
            name = type(command).__name__
            if name not in _OF_MERAK or name in _RECOMPUTING:
                raise Unsupported(f"{type(schedule).__name__} has the instruction {name}, which is no known unit")
            if name in _UNITS:
                units.append((_UNITS[name], stage, counts[name]))
                counts[name] += 1
    return units


def orders_of(schedule: Any) -> List[List[Unit]]:
    """The same of every stage, from the class of this stage's schedule."""
    kind = type(schedule)
    return [order_of(kind(micro_batches=schedule.micro_batches, stages=schedule.stages, stage_id=stage), stage)
            for stage in range(schedule.stages)]


def place_of(engine: Any) -> Place:
    grid = engine.grid
    return Place(grid.get_stage_id(), grid.get_pipe_parallel_world_size(), grid.get_data_parallel_rank(),
                 grid.get_data_parallel_world_size(), grid.get_slice_parallel_rank(),
                 grid.get_slice_parallel_world_size())


class _Adapter:
    def __init__(self, marks: Marks, module: Any):
        self.marks = marks
        self._table = module.PipelineEngine._INSTRUCTION_MAP
        self._training = module.schedule.TrainSchedule
        self._name = module.__name__
        self._counts: Dict[str, int] = {}
        self._key: Optional[Tuple] = None
        self._job: Optional[Job] = None

    def schedule(self, arguments: Dict[str, Any]):
        engine, schedule = arguments["self"], arguments["pipe_schedule"]
        if not isinstance(schedule, self._training):
            self.marks.pause()  # an evaluation
            return
        self._counts = dict.fromkeys(_UNITS.values(), 0)
        self.marks.begin(_SOURCE, PIPELINE, lambda: self.job(engine, schedule), getattr(engine, "global_steps", None))
        yield from self.marks.call()
        self.marks.end_unit()

    def job(self, engine: Any, schedule: Any) -> Job:
        key = (type(schedule), schedule.micro_batches, schedule.stages)
        if self._job is None or key != self._key:
            size = getattr(engine, "micro_batch_size", None)
            framework = f"{self._name.split('.')[0]} {version_of(self._name)}"  # known only when all of it is imported
            self._job = Job(framework, place_of(engine), self._orders(engine, schedule), schedule.micro_batches,
                            size if isinstance(size, int) and size > 0 else 1)
            self._key = key
        return self._job

    def _orders(self, engine: Any, schedule: Any) -> Optional[List[List[Unit]]]:
        try:
            if type(engine)._INSTRUCTION_MAP is not self._table:
                raise Unsupported(f"{type(engine).__name__} has an _INSTRUCTION_MAP of its own, which is not observed")
            return orders_of(schedule)
        except Unsupported as error:
            self.marks.refuse(str(error))
            return None

    def forward(self, arguments: Dict[str, Any]):
        yield from self._unit("forward", arguments["self"])

    def backward(self, arguments: Dict[str, Any]):
        yield from self._unit("backward", arguments["self"])

    def _unit(self, kind: str, engine: Any):
        if self.marks.running(_SOURCE):
            microbatch = self._counts[kind]
            self._counts[kind] += 1
            yield from self.marks.unit(_SOURCE, kind, engine.stage_id, microbatch)


def install(module: Any, marks: Marks) -> None:
    require(module, ["PipelineEngine", "schedule"])
    engine = module.PipelineEngine
    require(engine, ["_INSTRUCTION_MAP", "_exec_schedule"])
    require(module.schedule, ["TrainSchedule"])
    table = engine._INSTRUCTION_MAP
    names = {kind.__name__: kind for kind in table}
    if set(names) not in (_KNOWN, _OF_MERAK):
        known = _OF_MERAK if _RECOMPUTING & set(names) else _KNOWN
        raise Unsupported(f"{module.__file__} ({version_of(module.__name__)}): PipelineEngine._INSTRUCTION_MAP differs "
                          f"from what is known in {', '.join(sorted(set(names) ^ known))}")
    adapter = marks.adapter(_SOURCE, lambda: _Adapter(marks, module))
    wrap(engine, "_exec_schedule", {"self", "pipe_schedule"}, adapter.schedule, marks.fail)
    wrap(table, names["ForwardPass"], {"self", "buffer_id"}, adapter.forward, marks.fail)
    wrap(table, names["BackwardPass"], {"self", "buffer_id"}, adapter.backward, marks.fail)
