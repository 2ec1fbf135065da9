"""`load_prof` and `total_time_and_energy`: the functions of these names in Perseus' `utils`, for code that calls them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

from .._files import read_text
from .._library import InvalidUse

Breakdown = Dict[str, List[List[float]]]


class ProfilingResult(NamedTuple):
    """Measurements of a rank in a window: one value an iteration, in s and J; breakdowns by instruction."""

    rank: int
    iter_time: List[float]
    iter_energy: List[float]
    time_breakdown: Breakdown
    energy_breakdown: Breakdown


def _result(path: Path, rank: Any) -> ProfilingResult:
    try:
        return ProfilingResult(
            int(rank["rank"]),
            [float(value) for value in rank["iter_time"]],
            [float(value) for value in rank["iter_energy"]],
            rank.get("time_breakdown", {}),
            rank.get("energy_breakdown", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidUse(f"{path}: a rank without rank, iter_time and iter_energy: {error!r}") from error


def load_prof(directory: Union[str, "os.PathLike[str]"], schedule_num: int) -> List[ProfilingResult]:
    """The window `schedule_num` of a job's results, `N.prof.json`, by rank as the file has them.

    Raises FileNotFoundError where the file is missing, and InvalidUse where it holds something else.
    """
    path = Path(directory, f"{schedule_num}.prof.json")
    try:
        text = read_text(path)
    except ValueError as error:
        raise InvalidUse(str(error)) from error
    try:
        ranks = json.loads(text)
    except ValueError as error:
        raise InvalidUse(f"{path}: not valid JSON: {error}") from error
    if not isinstance(ranks, list):
        raise InvalidUse(f"{path}: expected a list of ranks")
    return [_result(path, rank) for rank in ranks]


def total_time_and_energy(profs: Sequence[Any], warmup_steps: int = 2) -> Tuple[float, float]:
    """Time (s) and energy (J) of an iteration of a window: means over its iterations but the first `warmup_steps`, of the
    slowest rank's time and of all ranks' energy.

    Args:
        profs: as load_prof gives them, or anything with iter_time and iter_energy.

    Raises InvalidUse where ranks have different numbers of iterations, or none is left.
    """
    if not profs:
        raise InvalidUse("profs: no rank")
    counts = {len(values) for prof in profs for values in (prof.iter_time, prof.iter_energy)}
    if len(counts) > 1:
        raise InvalidUse(f"profs: different numbers of iterations: {sorted(counts)}")
    count = counts.pop() - warmup_steps
    if warmup_steps < 0 or count < 1:
        raise InvalidUse(f"profs: no iteration is left after {warmup_steps} of warm-up")
    times_s = [max(values) for values in zip(*(prof.iter_time[warmup_steps:] for prof in profs))]
    energies_j = [sum(values) for values in zip(*(prof.iter_energy[warmup_steps:] for prof in profs))]
    return sum(times_s) / count, sum(energies_j) / count
