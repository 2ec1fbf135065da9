"""`estimate` and `search`: a training job before it has a GPU, on values."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Dict, List, Literal, Mapping, Union, overload

from .._library import InvalidUse
from .command import option_words, run
from .estimates import Estimate, ProfileRow, PublishedEstimate, SearchResult
from .inputs import PathLike, Scratch, job_option
from .table import Table

JobLike = Union[PathLike, Mapping[str, Any], None]
_OURS = ("json", "emit_profile", "peer_formula")


def _words(options: Mapping[str, Any]) -> List[str]:
    """Options of a job by their names in Python, as words: those that take `true` or `false`, and the pair
    `--sequence-parallel` and `--no-sequence-parallel`, are plain truth values here."""
    if "sequence_parallel" in options and "no_sequence_parallel" in options:
        raise InvalidUse("sequence_parallel and no_sequence_parallel are two names of one option; give the former")
    translated: Dict[str, Any] = {}
    for name, value in options.items():
        if name in _OURS:
            raise InvalidUse(f"{name}: this function sets it itself")
        if name.startswith("overlap_") and isinstance(value, bool):
            value = "true" if value else "false"
        if name == "sequence_parallel" and value is False:
            name, value = "no_sequence_parallel", True
        translated[name] = value
    return option_words(translated)


def _read_profile(path: Path) -> Table[ProfileRow]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            ProfileRow(int(row["stage"]), row["instruction"], int(row["frequency"]), float(row["time"]), float(row["energy"]))
            for row in csv.DictReader(file)
        ]
    return Table(ProfileRow, rows, "stage profile (estimated)")


@overload
def estimate(job: JobLike = None, *, formula: Literal["lowgear"] = "lowgear", **options: Any) -> Estimate: ...
@overload
def estimate(job: JobLike = None, *, formula: Literal["published"], **options: Any) -> PublishedEstimate: ...
def estimate(job: JobLike = None, *, formula: str = "lowgear", **options: Any) -> Union[Estimate, PublishedEstimate]:
    """Estimates memory, time and energy of a training job without a GPU.

    Args:
        job: a job file (YAML), or a dict as such a file has it (docs/estimating.md). Options stand before what it says.
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
    with Scratch() as scratch:
        file = job_option(scratch, job)
        words = _words({"job": file, **options})
        # Messages name what the user gave, not where this function has put it.
        wording = scratch.wording()._replace(files={str(scratch.path / "job.yaml"): "job"})
        if formula == "published":
            return PublishedEstimate(run("estimate", [*words, "--peer-formula"], wording=wording).document)
        profile = scratch.path / "profile.csv"
        done = run("estimate", [*words, f"--emit-profile={profile}"], wording=wording)
        notes = tuple(note for note in done.notes if str(profile) not in note)
        return Estimate(done.document, _read_profile(profile), notes)


def search(job: JobLike = None, **options: Any) -> SearchResult:
    """Finds the layout of a training job with the least time, energy or cost.

    Args:
        job: as `estimate` takes it; its own layout is not looked at.
        options: every option of `lowgear search`, with underscores. Most used: model, gpu (names), gpus, global_batch
            (sequences), seq (tokens), objective (`time`, `energy`, `cost`), top (layouts to plan), operators (folder of
            samples); tp, pp, dp, cp, ep, virtual_stages, micro_batch, zero, recompute keep to one value; max_cp,
            max_micro_batch, max_virtual_stages; gpu_hour, kwh (USD), co2 (g a kWh); threads; report (file).

    Raises InvalidUse with the command's message where the job cannot be run, or no layout divides it.
    """
    with Scratch() as scratch:
        words = _words({"job": job_option(scratch, job), **options})
        wording = scratch.wording()._replace(files={str(scratch.path / "job.yaml"): "job"})
        done = run("search", words, wording=wording)
        return SearchResult(done.document, done.notes)
