"""`plan`, `verify` and `simulate`: from a stage profile to clocks, on values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from .._library import InvalidUse
from .command import option_words, run
from .inputs import (
    PathLike,
    PowerLike,
    ProfileLike,
    ScheduleLike,
    Scratch,
    is_path,
    power_option,
    profile_file,
    schedule_option,
)
from .results import Plan, PlanResult, Simulation, Verification
from .work import ReplanResult

# Options that a parameter is not simply named as.
_PARAMETERS = {
    "blocking-power": "blocking_power_w",
    "deadline": "deadline_s",
    "slowdown": "slowdown_pct",
    "straggler": "straggler_factor",
    "switch-latency": "switch_latency_s",
    "perseus-unit": "perseus_unit_s",
    "slow-pipeline": "slow_pipeline_factor",
    "slow-rank": "slow_ranks",
}


def _milliseconds(time_s: Optional[float]) -> Optional[float]:
    return None if time_s is None else time_s * 1e3


def read_folder(folder: Path) -> Dict[str, bytes]:
    """An output folder of `lowgear plan`, by name."""
    names = json.loads((folder / "lowgear-files.json").read_bytes())["files"]
    return {name: (folder / name).read_bytes() for name in names}


def plan(
    profile: ProfileLike,
    *,
    blocking_power_w: PowerLike,
    microbatches: Optional[int] = None,
    schedule: ScheduleLike = "1f1b",
    stages: Optional[int] = None,
    chunks: Optional[int] = None,
    extra_activations: Optional[int] = None,
    p2p: Optional[str] = None,
    backward_split: Optional[float] = None,
    recomputation_share: Optional[float] = None,
    deadline_s: Optional[float] = None,
    slowdown_pct: Optional[float] = None,
    straggler_factor: Optional[float] = None,
    plans: Optional[int] = None,
    slow_ranks: Optional[Mapping[int, float]] = None,
    power_cap: Union[float, str, None] = None,
    policy: Optional[str] = None,
    gpu: Optional[str] = None,
    frontier: Optional[str] = None,
    epsilon: Optional[float] = None,
    granularity: Optional[str] = None,
    switch_latency_s: Optional[float] = None,
    ask_ahead: bool = False,
    perseus_unit_s: Optional[float] = None,
    perseus_noise_factor: Optional[float] = None,
    perseus_always_use_noise_factor: bool = False,
    perseus_initial_guess: Optional[PathLike] = None,
    out: Optional[PathLike] = None,
) -> PlanResult:
    """Plans clocks: the time-energy frontier of a pipeline and plans on it, each with a proven bound.

    Args:
        profile: time (s) and energy (J, one GPU) of each stage, instruction and clock (MHz): rows as dicts, columns as
            a dict, a data frame, or the path of a CSV file. Its columns are `stage`, `instruction`, `frequency` or
            `clock_mhz`, `time` or `time_s`, `energy` or `energy_j`, and what docs/formats.md has in addition.
        blocking_power_w: power of a GPU that waits, in W: one number, one for each rank, or a CSV file.
        microbatches: in an iteration; may be absent where the schedule says.
        schedule: as `lowgear schedule` names them (`1f1b`, `zb-h1`, `merak-full-critical-path`, ...); the path of a CSV
            in PyTorch's notation; or for each rank a list of its actions (`"0F0"`), as `pipeline_order` of a schedule
            of PyTorch has them.
        stages: pipeline ranks (default: as the profile or the schedule has). chunks: virtual stages a rank.
        extra_activations: for `envpipe`. p2p: `single` or `grouped`. backward_split: share of a backward that is its
            input gradient, 0 to 1. recomputation_share: time and energy of a recomputation by those of its forward, for
            schedules that recompute on a profile without such rows.
        deadline_s, slowdown_pct, straggler_factor, plans: one plan for an iteration of that many seconds, that many per cent above
            T_min, or as slow as a straggler that takes that many times T_min; or a number of plans (20). At most one of them.
        slow_ranks: rank -> factor by which it is slower than profiled. power_cap: the most power of each GPU, in W, or of
            the pipeline's GPUs together, one a rank (`"2400:job"`): one plan, the fastest within the cap that is no
            faster than its deadline.
        policy: that chooses clocks (`lowgear`). gpu: model that the profile is of, as `nvidia-smi -L` names it.
        frontier: `auto`, `exact` or `sandwich`, with bounds at most `epsilon` apart, a share of 1.
        granularity: `op`, or `stage` for one clock a stage and direction.
        switch_latency_s: how late clock changes take effect, in s. ask_ahead: plan as if they took effect at once; the
            agent then asks for each clock by that latency before its unit. perseus_unit_s: time step of Perseus' policy,
            in s. perseus_noise_factor, perseus_always_use_noise_factor, perseus_initial_guess: what lowtime's options of
            these names are; the last is the path of a file.
        out: folder to write as well, as `lowgear plan --out` does; one with other files is refused.

    Raises InvalidUse with the command's message for what cannot be planned, LowgearError for what failed.

    Source: exact frontiers of crashing problems (Fulkerson 1961, Kelley 1961) on profiles as Perseus has them (Chung et
    al., SOSP'24); docs/planner.md.
    """
    with Scratch(_PARAMETERS) as scratch:
        target = Path(os.path.abspath(out)) if out is not None else scratch.path / "plan"
        words = option_words(
            {
                "profile": profile_file(scratch, profile),
                "schedule": schedule_option(scratch, schedule),
                "blocking_power": power_option(scratch, blocking_power_w),
                "microbatches": microbatches,
                "stages": stages,
                "chunks": chunks,
                "extra_activations": extra_activations,
                "p2p": p2p,
                "backward_split": backward_split,
                "recomputation_share": recomputation_share,
                "deadline": deadline_s,
                "slowdown": slowdown_pct,
                "straggler": straggler_factor,
                "plans": plans,
                "slow_rank": [f"{rank}={factor}" for rank, factor in (slow_ranks or {}).items()],
                "power_cap": power_cap,
                "policy": policy,
                "gpu": gpu,
                "frontier": frontier,
                "epsilon": epsilon,
                "granularity": granularity,
                "switch_latency": _milliseconds(switch_latency_s),
                "ask_ahead": ask_ahead,
                "perseus_unit": perseus_unit_s,
                "perseus_noise_factor": perseus_noise_factor,
                "perseus_always_use_noise_factor": perseus_always_use_noise_factor,
                "perseus_initial_guess": os.path.abspath(perseus_initial_guess) if perseus_initial_guess else None,
                "out": target if out is not None else "plan",
            }
        )
        done = run("plan", words, folder=scratch.path, wording=scratch.wording())
        return PlanResult(done.document, read_folder(target), done.notes)


def verify(result: Union[PlanResult, ReplanResult, PathLike]) -> Verification:
    """Checks a result of `plan` or `replan`, or a folder that `lowgear plan` has written, with code that shares nothing with the
    planner: frontier, bounds and plans. What does not hold is in `failures` of the answer, which is then false.

    Raises InvalidUse when it cannot be read.
    """
    if is_path(result):
        return Verification(run("verify", [os.path.abspath(os.fspath(result))]).document)
    if not isinstance(result, (PlanResult, ReplanResult)):
        raise InvalidUse(f"verify takes a result of plan or its folder, not {type(result).__name__}")
    with Scratch() as scratch:
        result.save(scratch.path / "plan")
        return Verification(run("verify", ["plan"], folder=scratch.path).document)


def _plan_file(scratch: Scratch, plan: Union[Plan, Mapping[str, Any], PathLike]) -> str:
    if isinstance(plan, Plan):
        plan = plan.document
    if isinstance(plan, Mapping):
        return scratch.write("plan.json", json.dumps(plan), "plan")
    if not is_path(plan):
        raise InvalidUse(f"simulate takes a plan, a result of plan, a dict or a path, not {type(plan).__name__}")
    return os.path.abspath(os.fspath(plan))


def _defaults_of(
    plan: Any, profile: Optional[ProfileLike], power_w: Optional[PowerLike]
) -> Tuple[Optional[str], Optional[PowerLike]]:
    """The profile's text, unless it is given, and the blocking power: those that the plan was made with."""
    text = None
    if isinstance(plan, Plan):
        text = plan.profile_csv.decode() if profile is None else None
        power_w = plan.blocking_power_w if power_w is None else power_w
    elif profile is None or power_w is None:
        raise InvalidUse("simulate needs profile and blocking_power_w for a plan that is not from lowgear.plan")
    return text, power_w


def simulate(
    plan: Union[PlanResult, Plan, Mapping[str, Any], PathLike],
    profile: Optional[ProfileLike] = None,
    *,
    blocking_power_w: Optional[PowerLike] = None,
    stragglers: Optional[Mapping[int, float]] = None,
    switch_latency_s: Optional[float] = None,
    pipelines: Optional[int] = None,
    slow_pipeline_factor: Optional[float] = None,
    schedule: Optional[ScheduleLike] = None,
    stages: Optional[int] = None,
    microbatches: Optional[int] = None,
    chunks: Optional[int] = None,
    backward_split: Optional[float] = None,
    recomputation_share: Optional[float] = None,
    gpu: Optional[str] = None,
) -> Simulation:
    """Replays a plan on a profile, also with slow stages or in a cluster with a slow pipeline.

    Args:
        plan: a plan; a result of `plan`, of which the shown plan is taken; a dict or a file as `lowgear.plan/1`; or a
            file of Perseus or Zeus, for which schedule, stages, microbatches and chunks say what it is for.
        profile, blocking_power_w: as `plan` takes them (W); by default those that the plan was made with.
        stragglers: virtual stage -> factor (1 or more) by which it is slower, at the same power.
        switch_latency_s: how late clock changes take effect, in s (default: the profile's, or 0).
        pipelines: data-parallel pipelines that wait for each other, of which one is slower by slow_pipeline_factor.
        backward_split, recomputation_share, gpu: as `plan` takes them.

    Raises InvalidUse with the command's message for what cannot be replayed.
    """
    if isinstance(plan, PlanResult):
        plan = plan.shown_plan
    text, power_w = _defaults_of(plan, profile, blocking_power_w)
    with Scratch(dict(_PARAMETERS, straggler="stragglers")) as scratch:
        file = profile_file(scratch, profile) if text is None else scratch.write("profile.csv", text, "profile")
        words = option_words(
            {
                "plan": _plan_file(scratch, plan),
                "profile": file,
                "blocking_power": power_option(scratch, power_w),
                "straggler": [f"{stage}={factor}" for stage, factor in (stragglers or {}).items()],
                "switch_latency": _milliseconds(switch_latency_s),
                "pipelines": pipelines,
                "slow_pipeline": slow_pipeline_factor,
                "schedule": None if schedule is None else schedule_option(scratch, schedule),
                "stages": stages,
                "microbatches": microbatches,
                "chunks": chunks,
                "backward_split": backward_split,
                "recomputation_share": recomputation_share,
                "gpu": gpu,
                "trace": "trace.json",
            }
        )
        done = run("simulate", words, folder=scratch.path, wording=scratch.wording())
        return Simulation(done.document, (scratch.path / "trace.json").read_text(encoding="utf-8"), done.notes)
