"""`plan`, `verify` and `simulate`: from a stage profile to clocks, on values."""

from __future__ import annotations

import json
import numbers
import os
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from .._keywords import with_suggestions
from .._library import InvalidUse
from .call import Reply, Request
from .inputs import (
    PathLike,
    PowerLike,
    ProfileLike,
    ScheduleLike,
    absolute_path,
    factors_option,
    file_path,
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
    "no-ask-ahead": "ask_ahead=False",
    "virtual-stages": "chunks",
}


def _milliseconds(time_s: Union[float, str, None]) -> Optional[str]:
    """Seconds as milliseconds with their unit. A text is passed on: it has its own."""
    return f"{time_s * 1e3}ms" if isinstance(time_s, numbers.Real) and not isinstance(time_s, bool) else time_s


OUT = "plan"  # name of an output folder in memory


def out_folder(out: Optional[PathLike]) -> Tuple[str, Tuple[str, ...]]:
    """The output folder of a plan, and the names of outputs to keep in memory."""
    return (OUT, (OUT,)) if out is None else (absolute_path(out, "out"), ())


def planned_files(reply: Reply, out: Optional[PathLike]) -> Dict[str, bytes]:
    """An output folder of `lowgear plan`, by name."""
    if out is None:
        return reply.folder(OUT)
    folder = Path(out)
    names = json.loads((folder / "lowgear-files.json").read_bytes())["files"]
    return {name: (folder / name).read_bytes() for name in names}


def give_folder(request: Request, result: Union[PlanResult, ReplanResult]) -> str:
    """Hands over the output folder of a result; returns its name."""
    for name, content in result.files.items():
        request.give(f"{OUT}/{name}", content.decode(), f"{OUT}/{name}")
    return OUT


@with_suggestions(_PARAMETERS)
def plan(
    profile: ProfileLike,
    *,
    microbatches: Optional[int] = None,
    blocking_power_w: Optional[PowerLike] = None,
    schedule: Optional[ScheduleLike] = None,
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
    switch_latency_s: Union[float, str, None] = None,
    ask_ahead: Optional[bool] = None,
    perseus_unit_s: Optional[float] = None,
    perseus_noise_factor: Optional[float] = None,
    perseus_always_use_noise_factor: bool = False,
    perseus_initial_guess: Optional[PathLike] = None,
    out: Optional[PathLike] = None,
    **options: Any,
) -> PlanResult:
    """Plans clocks: the time-energy frontier of a pipeline and plans on it, each with a proven bound.

    Defaults are those of `lowgear plan`: what you leave out, the command decides.

    Args:
        profile: time (s) and energy (J, one GPU) of each stage, instruction and clock (MHz): rows as dicts, columns as
            a dict, a data frame, or the path of a CSV file. Its columns are `stage`, `instruction`, `frequency` or
            `clock_mhz`, `time` or `time_s`, `energy` or `energy_j`, and what docs/formats.md has in addition.
        microbatches: number in an iteration; may be left out where the schedule has it.
        blocking_power_w: power of a GPU that waits, in W: one number, one for each rank, or a CSV file. By default that
            of the profile, else that of `gpu`, else an assumption, of which a LowgearWarning tells.
        schedule: as `lowgear show` names them (`1f1b`, the default, `zb-h1`, ...); the path of a CSV in PyTorch's
            notation; or for each rank a list of its actions (`"0F0"`), as `pipeline_order` of a schedule
            of PyTorch has them.
        stages: pipeline ranks (default: as the profile or the schedule has). chunks: virtual stages a rank.
        extra_activations: for `envpipe`. p2p: `single` or `grouped`. backward_split: share of a backward that is its
            input gradient, 0 to 1. recomputation_share: time and energy of a recomputation by those of its forward, for
            schedules that recompute on a profile without such rows.
        deadline_s, slowdown_pct, straggler_factor, plans: at most one of them. One plan for an iteration of deadline_s
            seconds, of slowdown_pct per cent above T_min (planned, not a measured baseline), or as slow as a straggler that
            takes straggler_factor times T_min; or a number of plans (20).
        slow_ranks: rank -> factor by which it is slower than profiled. power_cap: the most power of each GPU, in W, or of
            the pipeline's GPUs together, one a rank (`"2400:job"`): one plan, the fastest found within the cap, or
            that of least energy found that keeps its deadline.
        policy: the one that chooses the clocks (`lowgear`). gpu: model that the profile was measured on, as `nvidia-smi -L`
            names it.
        frontier: `auto`, `exact` or `sandwich`, with bounds at most `epsilon` apart, a share of 1.
        granularity: `op`, or `stage` for one clock a stage and direction.
        switch_latency_s: delay of clock changes, in s, or "instant" (the profile's, else 0.025). ask_ahead: whether the
            agent requests each clock by that delay before its unit, so that it changes in time (True). False plans with
            the delay.
        perseus_unit_s: time step of Perseus' policy, in s. perseus_noise_factor, perseus_always_use_noise_factor,
            perseus_initial_guess: lowtime's options of these names; the last is the path of a file.
        out: folder to write as well, as `lowgear plan --out` does; one with other files is refused.
        options: any other option of `lowgear plan`, with underscores: memory_limit, envpipe_reconfig, ...

    Raises InvalidUse with the command's message for what cannot be planned, LowgearError for what failed.

    Source: exact frontiers of crashing problems (Fulkerson 1961, Kelley 1961) on profiles as Perseus has them (Chung et
    al., SOSP'24); docs/planner.md.
    """
    request = Request("plan", _PARAMETERS)
    target, kept = out_folder(out)
    words = {
        **options,
        "profile": profile_file(request, profile),
        "schedule": None if schedule is None else schedule_option(request, schedule),
        "blocking_power": None if blocking_power_w is None else power_option(request, blocking_power_w),
        "microbatches": microbatches,
        "stages": stages,
        "chunks": chunks,
        "extra_activations": extra_activations,
        "p2p": p2p,
        "backward_split": backward_split,
        "recomputation_share": recomputation_share,
        "deadline": deadline_s,
        "slowdown": f"{slowdown_pct}%" if isinstance(slowdown_pct, numbers.Real) else slowdown_pct,
        "straggler": straggler_factor,
        "plans": plans,
        "slow_rank": factors_option(slow_ranks, "slow_ranks", "rank"),
        "power_cap": power_cap,
        "policy": policy,
        "gpu": gpu,
        "frontier": frontier,
        "epsilon": epsilon,
        "granularity": granularity,
        "switch_latency": _milliseconds(switch_latency_s),
        "ask_ahead": "false" if ask_ahead is False else ask_ahead,
        "perseus_unit": perseus_unit_s,
        "perseus_noise_factor": perseus_noise_factor,
        "perseus_always_use_noise_factor": perseus_always_use_noise_factor,
        "perseus_initial_guess":
            absolute_path(perseus_initial_guess, "perseus_initial_guess") if perseus_initial_guess else None,
        "out": target,
    }
    reply = request.run(words, keep=kept)
    return PlanResult(reply.result, planned_files(reply, out), reply.notes)


@with_suggestions()
def verify(result: Union[PlanResult, ReplanResult, PathLike]) -> Verification:
    """Checks frontier, bounds and plans of a result of `plan` or `replan`, or of a folder that `lowgear plan` has written,
    with code that shares nothing with the planner. The answer is false where a check fails; `failures` lists those.

    Raises InvalidUse when it cannot be read.
    """
    request = Request("verify")
    if is_path(result):
        return Verification(request.run({}, file_path(result)).result)
    if not isinstance(result, (PlanResult, ReplanResult)):
        raise InvalidUse(f"verify takes a result of plan or its folder, not {type(result).__name__}")
    return Verification(request.run({}, give_folder(request, result)).result)


def _plan_file(request: Request, plan: Union[Plan, Mapping[str, Any], PathLike]) -> str:
    if isinstance(plan, Plan):
        plan = plan.document
    if isinstance(plan, Mapping):
        return request.give("plan.json", json.dumps(plan), "plan")
    if not is_path(plan):
        raise InvalidUse(f"simulate takes a plan, a result of plan, a dict or a path, not {type(plan).__name__}")
    return file_path(plan)


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


@with_suggestions(dict(_PARAMETERS, straggler="slow_stages", stragglers="slow_stages"))
def simulate(
    plan: Union[PlanResult, Plan, Mapping[str, Any], PathLike],
    profile: Optional[ProfileLike] = None,
    *,
    blocking_power_w: Optional[PowerLike] = None,
    slow_stages: Optional[Mapping[int, float]] = None,
    switch_latency_s: Union[float, str, None] = None,
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
            file of Perseus or Zeus, with schedule, stages, microbatches and chunks for its pipeline.
        profile, blocking_power_w: as `plan` takes them (W); by default those that the plan was made with.
        slow_stages: virtual stage -> factor (1 or more) by which it is slower, at the same power.
        switch_latency_s: delay of clock changes, in s (default: the profile's, or 0).
        pipelines: data-parallel pipelines that wait for each other, of which one is slower by slow_pipeline_factor.
        backward_split, recomputation_share, gpu: as `plan` takes them.

    Raises InvalidUse with the command's message for what cannot be replayed.
    """
    if isinstance(plan, PlanResult):
        plan = plan.shown_plan
    text, power_w = _defaults_of(plan, profile, blocking_power_w)
    request = Request("verify --replay", dict(_PARAMETERS, **{"slow-stage": "slow_stages", "replay": "plan"}))
    file = profile_file(request, profile) if text is None else request.give("profile.csv", text, "profile", header_lines=1)
    options = {
        "plan": _plan_file(request, plan),
        "profile": file,
        "blocking_power": power_option(request, power_w),
        "slow_stage": factors_option(slow_stages, "slow_stages", "virtual stage"),
        "switch_latency": _milliseconds(switch_latency_s),
        "pipelines": pipelines,
        "slow_pipeline": slow_pipeline_factor,
        "schedule": None if schedule is None else schedule_option(request, schedule),
        "stages": stages,
        "microbatches": microbatches,
        "chunks": chunks,
        "backward_split": backward_split,
        "recomputation_share": recomputation_share,
        "gpu": gpu,
        "trace": "trace.json",
    }
    reply = request.run(options, keep=["trace.json"])
    return Simulation(reply.result, reply.files["trace.json"].decode(), reply.notes)
