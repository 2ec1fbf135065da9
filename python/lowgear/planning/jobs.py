"""`estimate` and `search`: a training job before it has a GPU, on values."""

from __future__ import annotations

import csv
import io
from typing import Any, Dict, Literal, Mapping, Optional, Union, overload

from .._keywords import with_suggestions
from .._library import InvalidUse
from .call import Request
from .estimates import Estimate, PowerSearchResult, ProfileRow, PublishedEstimate, SearchResult
from .inputs import PathLike, job_option
from .table import Table

JobLike = Union[PathLike, Mapping[str, Any], None]
_PROFILE = "profile.csv"  # in memory
_OURS = ("json", "emit_profile", "peer_formula")


def _translated(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of a job as the command has them: those that take `true` or `false`, and the pair
    `--sequence-parallel` and `--no-sequence-parallel`, are plain truth values here."""
    if "sequence_parallel" in options and "no_sequence_parallel" in options:
        raise InvalidUse("sequence_parallel and no_sequence_parallel are two names of one option; give the former")
    translated: Dict[str, Any] = {}
    for name, value in options.items():
        if name in _OURS:
            raise InvalidUse(f"{name}: this function sets it itself")
        if isinstance(value, Mapping):
            raise InvalidUse(f"{name}: a dict is a part of a job; leave it out and give its values as options, such as tp=2, "
                             f"or give a whole job as a dict that has {name!r}")
        if name.startswith("overlap_") and isinstance(value, bool):
            value = "true" if value else "false"
        if name == "sequence_parallel" and value is False:
            name, value = "no_sequence_parallel", True
        translated[name] = value
    return translated


def _read_profile(text: str) -> Table[ProfileRow]:
    rows = [
        ProfileRow(int(row["stage"]), row["instruction"], int(row["frequency"]), float(row["time"]), float(row["energy"]))
        for row in csv.DictReader(io.StringIO(text))
    ]
    return Table(ProfileRow, rows, "stage profile (estimated)")


@overload
def estimate(job: JobLike = None, *, formula: Literal["lowgear"] = "lowgear", **options: Any) -> Estimate: ...
@overload
def estimate(job: JobLike = None, *, formula: Literal["published"], **options: Any) -> PublishedEstimate: ...
@with_suggestions()
def estimate(job: JobLike = None, *, formula: str = "lowgear", **options: Any) -> Union[Estimate, PublishedEstimate]:
    """Estimates memory, time and energy of a training job without a GPU.

    Args:
        job: a job file (YAML), or a dict as such a file has it (docs/estimating.md). Options override it.
        formula: `lowgear`, or `published` for that of the published estimator, with its regressors and its flaws; its
            only option is `operators`.
        options: every option of `lowgear estimate`, with underscores. Most used: model, gpu (names), gpus, nodes, tp, pp,
            dp, cp, ep, virtual_stages, global_batch and micro_batch (sequences), seq (tokens), recompute, zero, dtype,
            schedule; power_limit_w (W), memory_gb (GB), inter_node_gb_per_s (GB/s); operators (folder of samples);
            plan=True for clocks, with deadline (s), slowdown (%) or policy; gpu_hour, kwh (USD), co2 (g a kWh); report
            (file). `sequence_parallel` and `overlap_*` are True or False.

    A job that does not fit is an answer: `fits` is False and `document["overflow"]` says what would help. Raises
    InvalidUse with the command's message for a job that cannot be run, and for unknown names with the nearest ones.

    **In place of `estimate_train_time.one_batch_predict(config)`**, which returns microseconds of one batch:
    `estimate(config).time_s * 1e6` reads the same file and estimates with Lowgear's own model, and
    `estimate(config, formula="published", operators=folder).time_s * 1e6` with that tool's formula on its sampling files
    (folder with `operator` and `nccl`; default the folders that the file names).

    Source: docs/estimating.md names those of each part.
    """
    if formula not in ("lowgear", "published"):
        raise InvalidUse(f"formula: expected lowgear or published, not {formula!r}")
    request = Request("estimate")
    words = _translated({"job": job_option(request, job), **options})
    if formula == "published":
        return PublishedEstimate(request.run({**words, "peer_formula": True}).result)
    reply = request.run({**words, "emit_profile": _PROFILE}, keep=[_PROFILE])
    notes = tuple(note for note in reply.notes if not note.startswith(_PROFILE))
    return Estimate(reply.result, _read_profile(reply.files[_PROFILE].decode()), notes)


@overload
def search(job: JobLike = None, *, power: None = None, **options: Any) -> SearchResult: ...
@overload
def search(job: JobLike = None, *, power: float, **options: Any) -> PowerSearchResult: ...
@with_suggestions()
def search(
    job: JobLike = None, *, power: Optional[float] = None, **options: Any
) -> Union[SearchResult, PowerSearchResult]:
    """Finds the layout of a training job with the least time, energy or cost, or the number of GPUs, layout and clocks
    with most tokens a second within a power.

    Args:
        job: as `estimate` takes it; its own layout has to be possible, and is not used otherwise.
        power: of a facility, in W; the result is then a PowerSearchResult, and gpus the largest number to try.
        options: every option of `lowgear search`, with underscores. Most used: model, gpu (names), gpus, global_batch
            (sequences), seq (tokens), objective (`time`, `energy`, `cost`), top (layouts to plan), operators (folder of
            samples); tp, pp, dp, cp, ep, virtual_stages, micro_batch, zero, recompute keep to one value; max_cp,
            max_micro_batch, max_virtual_stages; gpu_hour, kwh (USD), co2 (g a kWh); threads; report (file); with a
            power, gpu_overhead and node_overhead (W).

    Raises InvalidUse with the command's message where the job cannot be run, or no layout divides it.
    """
    request = Request("search")
    words = _translated({"job": job_option(request, job), **options})
    if power is None:
        reply = request.run(words)
        return SearchResult(reply.result, reply.notes)
    reply = request.run({**words, "power": power})
    return PowerSearchResult(reply.result, reply.notes)
