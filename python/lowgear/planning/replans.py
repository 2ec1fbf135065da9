"""`replan`: new clocks, and a new partition, for a pipeline whose work has changed."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Sequence, Union

from .._keywords import with_suggestions
from .._library import InvalidUse
from .call import Request
from .inputs import PathLike, is_path, listed
from .pipelines import give_folder, out_folder, planned_files
from .results import PlanResult
from .work import ReplanResult

# Options that a parameter is not simply named as.
_PARAMETERS = {"scale": "scales", "deadline": "deadline_s", "time": "step_time"}
_LAYERS = "layers: expected those of the model, or those of every stage"


class Scale(NamedTuple):
    """Layers `first` to `last` take `time` times their time and `energy` times their energy (default: as the time)."""

    first: int
    last: int
    time: float
    energy: Optional[float] = None


def _scale_words(scales: Sequence[Sequence[float]]) -> Sequence[str]:
    words = []
    expected = "scales: expected (first, last, time) or (first, last, time, energy) for each range"
    for scale in listed(scales, expected):
        values = listed(scale, expected)
        if isinstance(scale, str) or len(values) not in (3, 4):
            raise InvalidUse(f"{expected}, not {scale!r}")
        first, last, *factors = values
        words.append(f"{first}-{last}=" + ",".join(str(factor) for factor in factors if factor is not None))
    return words


def _folder_of(plan: Union[PlanResult, PathLike], request: Request) -> str:
    if is_path(plan):
        return os.path.abspath(os.fspath(plan))
    if not isinstance(plan, PlanResult):
        raise InvalidUse(f"replan takes a result of plan or its folder, not {type(plan).__name__}")
    return give_folder(request, plan)


@with_suggestions(_PARAMETERS)
def replan(
    plan: Union[PlanResult, PathLike],
    *,
    layers: Union[int, Sequence[int]],
    freeze: Optional[int] = None,
    scales: Sequence[Sequence[float]] = (),
    drop_weight_gradients: Optional[float] = None,
    recompute: Optional[str] = None,
    microbatches: Optional[int] = None,
    keep_partition: bool = False,
    step_time: Optional[str] = None,
    deadline_s: Optional[float] = None,
    out: Optional[PathLike] = None,
) -> ReplanResult:
    """Plans again when the work of a pipeline has changed: new profile, new partition and new clocks in one step.

    Args:
        plan: a result of `plan`, or a folder that `lowgear plan` has written, for the job before any layer was frozen.
        layers: of the model, divided evenly over the stages, the first stages one more; or those of every stage.
        freeze: number of first layers that are frozen, together with the embedding.
        scales: for each range of layers `(first, last, time)` or `(first, last, time, energy)`, factors on the
            profile's values, as with another precision.
        drop_weight_gradients: share of the weight gradients of all layers that steps leave out.
        recompute: `added`, where layers now repeat their forward before their backward and did not in the profile;
            `removed` for the opposite.
        microbatches: in an iteration from now on (default: as before).
        keep_partition: leave the layers where they are, as for an attached job.
        step_time: `old`, as long per microbatch as the plan before (default), or `own`, as short as possible.
        deadline_s: longest iteration time instead, in s.
        out: folder to write the new plan to as well; one with other files is refused.

    The new plan requests its clocks as far ahead of their units as the plan before.

    Raises InvalidUse with the command's message for what cannot be planned, LowgearError for what failed.
    """
    request = Request("plan --change", _PARAMETERS)
    target, kept = out_folder(out)
    options = {
        "layers": layers if isinstance(layers, (int, str)) else ",".join(map(str, listed(layers, _LAYERS))),
        "freeze": freeze,
        "scale": _scale_words(scales),
        "drop_weight_gradients": drop_weight_gradients,
        "recompute": recompute,
        "microbatches": microbatches,
        "keep_partition": keep_partition,
        "time": step_time,
        "deadline": deadline_s,
        "out": target,
    }
    reply = request.run(options, _folder_of(plan, request), keep=kept)
    return ReplanResult(reply.result, planned_files(reply, out), reply.notes)
