"""Megatron Core's pipeline schedules, 0.8 and later, and with them Megatron-LM, Bridge and NeMo: `forward_step`,
`backward_step` and the functions that run an iteration. A forward includes the loss."""

import sys
from typing import Any, Dict, List, Optional, Tuple

from .job import Job, Place, Unit
from .marks import PIPELINE, Marks
from .wrapping import Unsupported, require, version_of, wrap

MARKS_UNITS = True
_SOURCE = "megatron"
_ITERATIONS = {
    "forward_backward_no_pipelining": False,
    "forward_backward_pipelining_without_interleaving": False,
    "forward_backward_pipelining_with_interleaving": True,
}


def alternating(forwards: List[Unit], backwards: List[Unit], ahead: int) -> List[Unit]:
    """`ahead` forwards, then one forward and one backward in turn, then the backwards that are left."""
    order = forwards[:ahead]
    for at, forward in enumerate(forwards[ahead:]):
        order += [forward, backwards[at]]
    return order + backwards[len(forwards) - ahead:]


def order_of(rank: int, pp: int, microbatches: int) -> List[Unit]:
    """1F1B of one rank, as forward_backward_pipelining_without_interleaving runs it."""
    every = range(microbatches)
    return alternating([("forward", rank, i) for i in every], [("backward", rank, i) for i in every],
                       min(pp - rank - 1, microbatches))


def interleaved_order_of(rank: int, pp: int, chunks: int, table: List[Tuple[int, int]], group: int) -> List[Unit]:
    """Interleaved 1F1B of one rank by Megatron's table of (microbatch, chunk), as get_pp_rank_microbatches divides it.
    The stage of a chunk is chunk x pp + rank; backwards take the chunks from the last one on."""
    forwards: List[Unit] = [("forward", chunk * pp + rank, i) for i, chunk in table]
    backwards: List[Unit] = [("backward", (chunks - 1 - chunk) * pp + rank, i) for i, chunk in table]
    ahead = (pp - rank - 1) * 2 + (chunks - 1) * group
    return alternating(forwards, backwards, min(ahead, len(table)))


def _first_tensor(output: Any) -> Any:
    """The tensor in a forward's result that its backward receives again."""
    while isinstance(output, (list, tuple, dict)) and output:
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output


def place_of(parallel: Any) -> Place:
    """By megatron.core.parallel_state. Replicas count context parallel ranks in; expert parallel ranks lie in them."""
    return Place(
        parallel.get_pipeline_model_parallel_rank(), parallel.get_pipeline_model_parallel_world_size(),
        parallel.get_data_parallel_rank(with_context_parallel=True),
        parallel.get_data_parallel_world_size(with_context_parallel=True),
        parallel.get_tensor_model_parallel_rank(), parallel.get_tensor_model_parallel_world_size())


def check(config: Any) -> None:
    """Raises Unsupported where units of this configuration cannot be seen from Python."""
    graphs = [getattr(config, name, None) for name in ("cuda_graph_impl", "cuda_graph_scope")]
    if any("full_iteration" in (value if isinstance(value, (str, list, tuple)) else ()) for value in graphs):
        raise Unsupported("full-iteration CUDA graphs run no Python when they are replayed: units are not seen; use "
                          "--cuda-graph-impl local or transformer_engine, which capture layers")
    if getattr(config, "overlap_moe_expert_parallel_comm", False):
        raise Unsupported("overlap_moe_expert_parallel_comm runs forwards and backwards in one function: units are not "
                          "seen; train without --overlap-moe-expert-parallel-comm")
    if getattr(config, "hybrid_context_parallel", False):
        raise Unsupported("hybrid_context_parallel runs a number of microbatches that no schedule lists")


class _Adapter:
    def __init__(self, marks: Marks, module: Any):
        self.marks = marks
        self._module = module
        self._job: Optional[Job] = None
        self._key: Optional[Tuple] = None
        self._chunks: Dict[int, int] = {}  # by identity of a model chunk
        self._outputs: Dict[int, Tuple[int, int]] = {}  # stage and microbatch by identity of what a forward returned

    def iteration(self, interleaved: bool):
        def observer(arguments: Dict[str, Any]):
            if arguments.get("forward_only"):
                self.marks.pause()
                return
            self._outputs.clear()
            self.marks.begin(_SOURCE, PIPELINE, lambda: self.job(arguments, interleaved))
            yield from self.marks.call()
            self.marks.end_unit()

        return observer

    def job(self, arguments: Dict[str, Any], interleaved: bool) -> Job:
        model = arguments["model"]
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        self._chunks = {id(chunk): at for at, chunk in enumerate(models)}
        key = (interleaved, arguments["num_microbatches"], len(models), arguments.get("micro_batch_size"))
        if self._job is None or key != self._key:
            place = place_of(sys.modules["megatron.core.parallel_state"])
            size = arguments.get("micro_batch_size")
            orders = self._orders(place.pp, models, arguments["num_microbatches"], interleaved)
            self._job = Job(f"megatron core {version_of('megatron.core')}", place, orders,
                            arguments["num_microbatches"], size if isinstance(size, int) and size > 0 else 1)
            self._key = key
        return self._job

    def _orders(self, pp: int, models: List[Any], microbatches: int, interleaved: bool) -> Optional[List[List[Unit]]]:
        try:
            config = self._module.get_model_config(models[0])
            check(config)
            if not interleaved:
                return [order_of(rank, pp, microbatches) for rank in range(pp)]
            require(self._module, ["get_schedule_table"])
            group = getattr(config, "microbatch_group_size_per_vp_stage", None) or pp
            table = self._module.get_schedule_table(microbatches, len(models), group)
            return [interleaved_order_of(rank, pp, len(models), table, group) for rank in range(pp)]
        except Unsupported as error:
            self.marks.refuse(str(error))
            return None

    def forward(self, arguments: Dict[str, Any]):
        if not self.marks.running(_SOURCE):
            return
        chunk = arguments.get("vp_stage")
        if chunk is None:
            chunk = self._chunks.get(id(arguments["model"]), 0)
        place = self._job.place
        stage, microbatch = chunk * place.pp + place.pp_rank, arguments["current_microbatch"]
        result = yield from self.marks.unit(_SOURCE, "forward", stage, microbatch)
        self._outputs[id(_first_tensor(result))] = (stage, microbatch)

    def backward(self, arguments: Dict[str, Any]):
        if not self.marks.running(_SOURCE):
            return
        known = self._outputs.pop(id(_first_tensor(arguments["output_tensor"])), None)
        if known is None:
            self.marks.refuse("a backward gets an output that no forward of this iteration has returned")
            return
        yield from self.marks.unit(_SOURCE, "backward", *known)


def install(module: Any, marks: Marks) -> None:
    require(module, ["forward_step", "backward_step", "get_model_config", *_ITERATIONS])
    adapter = marks.adapter(_SOURCE, lambda: _Adapter(marks, module))
    wrap(module, "forward_step", {"model", "current_microbatch"}, adapter.forward, marks.fail)
    wrap(module, "backward_step", {"output_tensor"}, adapter.backward, marks.fail)
    if hasattr(module, "backward_step_multimodule"):
        wrap(module, "backward_step_multimodule", {"output_tensor"}, adapter.backward, marks.fail)
    for name, interleaved in _ITERATIONS.items():
        needs = {"model", "num_microbatches", "forward_only"}
        wrap(module, name, needs, adapter.iteration(interleaved), marks.fail)
