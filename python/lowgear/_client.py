"""The client: marks units and iterations, hands over plans, measures energy."""

import ctypes
import json
import os
import warnings
from contextlib import contextmanager
from typing import Iterable, NamedTuple, Optional, Tuple

from . import _library

_KINDS = {"forward": 0, "backward": 1, "input_gradient": 2, "weight_gradient": 3, "forward_backward": 4,
          "recomputation": 5, "recomputing_backward": 6}
_POINTS = {"clock": 0, "power-limit": 1}
_SEARCH_STATES = ("off", "waiting", "running", "found", "none", "cut_off", "elsewhere")
_NEAREST_BELOW = 1
_COUNT_DIFFERENCES = 1
_NEXT = 0xFFFFFFFF
_LEGACY_STREAM = 1  # as the driver's interface names the default stream; runtime and PyTorch say 0


class Measurement(NamedTuple):
    """What the GPU used during a window; None where it does not report it, or its energy not all the time."""

    time_s: float
    energy_j: Optional[float]
    energy_uncertainty_j: Optional[float]  # of the counter's steps, or of the power readings, as +-
    mean_power_w: Optional[float]
    peak_power_w: Optional[float]
    mean_sm_clock_mhz: Optional[float]
    power_capped_s: Optional[float]
    max_temperature_c: Optional[int]
    simulated: bool
    energy_source: Optional[str]  # "counter"; "integrated power" where there is none, or it cannot be right
    problem: str  # why something is missing, or why the counter is not used; empty when nothing is


class Status(NamedTuple):
    """How a client stands. `problem` says what does not work, for a person."""

    rank: int
    world_size: int
    has_lease: bool
    has_plan: bool
    suspended: bool
    dry_run: bool
    simulated: bool
    requested_clock_mhz: int
    units: int
    mismatched: int
    lost: int
    reconnects: int
    gpu_uuid: str
    problem: str
    server_connected: bool
    plan_version: int  # of the server's plan that the newest iteration followed; 0: none
    reports_lost: int
    server_problem: str
    pp_rank: int  # in the pipeline; -1: not certain
    stage: int  # the only one of this rank; -1: not certain, or it has several
    place: str  # how they are known; or why not, and what to pass
    following: bool  # False: after refuse or stop_following, or a schedule that differs; plans are not followed
    stream_marks: bool  # marks are ordered with the GPU's work (use_stream); False: they are the host's
    differing_iterations: int  # that did not run what `expect` was given
    not_following: str  # why plans are not followed
    difference: str  # the first one: "iteration 12, unit 5: expected backward 3 of stage 1, got forward 4 of stage 1"
    stream_problem: str  # why marks are the host's although use_stream was called, or what was lost
    decisions_waiting: int  # reported decisions that the server does not have yet
    decisions_lost: int  # that it will not get: it is older, or was away for too long


class OperatingPoint(NamedTuple):
    """How the search of the operating point stands.

    `state`: off; waiting (for the GPUs, or the job's first iterations); running; found (the job runs at `value`); none (no
    point is shown to save energy) and cut_off (it could not be searched to its end), in which the GPUs' settings are their
    own; elsewhere (the job's first rank searches).
    """

    state: str
    points: str  # clock or power-limit
    value: Optional[float]  # at which the job runs now, in MHz or W; None: the GPUs' own choice
    energy_pct: Optional[float]  # of the point that was found, against the first; below 0: it saves
    energy_error_pct: Optional[float]  # half the width of its 99 % interval
    slowdown_pct: Optional[float]
    slowdown_error_pct: Optional[float]
    iterations: int  # observed so far
    cost_time_s: float  # what searching took more than as many iterations at the first point; below 0: less
    cost_energy_j: float
    reason: str  # the newest decision with its numbers, or what is waited for


class Window:
    """An energy window; `measurement` is there once it is over."""

    def __init__(self, name: str):
        self.name = name
        self.measurement: Optional[Measurement] = None


def _encode(text):
    return None if text is None else os.fsencode(text)


class Client:
    """A training process' client. One thread marks iterations and units; a context manager closes it.

    Every argument left out is taken from the environment: the rank from torchrun, Slurm, Open MPI or MPICH, the GPU from
    CUDA_VISIBLE_DEVICES, LOWGEAR_AGENT_SOCKET, LOWGEAR_JOB, LOWGEAR_RECORDING. `agent_socket=""` uses no agent.

    With `server` (LOWGEAR_SERVER) plans come from `lowgear serve`, and none is loaded; several addresses with commas
    between them are of one server that may move from one to another. `job_spec` (LOWGEAR_JOB_SPEC) is
    then the job as docs/server-api.md has it, a dict or JSON, the same on all ranks.

    `pp_rank` (LOWGEAR_PP_RANK) is this process' rank in the pipeline, for plans, instructions and the server; `dp_rank`
    and `tp_rank` its place among replicas and among ranks that share layers. Instead of them `rank_order`
    (LOWGEAR_RANK_ORDER) may say how the job numbers its ranks: "megatron", "deepspeed", or axes such as
    "tp-cp-ep-dp-pp", those of neighbouring ranks first.
    """

    def __init__(
        self,
        *,
        agent_socket=None,
        gpu=None,
        job=None,
        recording=None,
        rank=-1,
        local_rank=-1,
        world_size=-1,
        server=None,
        token_file=None,
        job_spec=None,
        pp_rank=-1,
        dp_rank=-1,
        tp_rank=-1,
        rank_order=None,
    ):
        self._handle = None
        self._library = _library.load()
        options = _library.Options(
            ctypes.sizeof(_library.Options),
            _encode(agent_socket),
            _encode(gpu),
            _encode(job),
            _encode(recording),
            rank,
            local_rank,
            world_size,
            _encode(server),
            _encode(token_file),
            _encode(json.dumps(job_spec) if isinstance(job_spec, dict) else job_spec),
            pp_rank,
            dp_rank,
            tp_rank,
            _encode(rank_order),
        )
        handle = ctypes.c_void_p()
        self._check(self._library.lowgear_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._own_stage = None
        self._instruction = None
        self._counts = {}

    def _check(self, code):
        _library.check(self._library, code)

    def close(self):
        """Ends the lease, so that the GPU's clocks go back, and finishes the recording. May be called twice.

        Warns (RuntimeWarning) when the server does not answer.
        """
        if self._handle is None:
            return
        status = self.status()
        handle, self._handle = self._handle, None
        self._check(self._library.lowgear_close(handle))
        if status.server_problem and not status.server_connected:
            warnings.warn(f"no server: {status.server_problem}", RuntimeWarning, stacklevel=2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self._library.lowgear_close(self._handle)

    def load_plan(self, path, plan_rank: int = -1, nearest_below: bool = False):
        """Hands a plan over. `plan_rank` is which of the plan's ranks this process is; -1: the first that tells of
        `pp_rank`, `rank_order`, the sizes of `job_spec` where one alone is above 1, a job of one process, a plan of one
        rank or of as many as the job has.

        A lease that the administrator has ended is taken again by this call alone.

        Raises Refused when the agent does not take it, AgentUnavailable when there is none (the plan is kept for when
        there is), InvalidUse when the file is no plan, or it is not certain which of its ranks this is.
        """
        flags = _NEAREST_BELOW if nearest_below else 0
        self._own_stage = None
        self._check(self._library.lowgear_load_plan(self._handle, _encode(path), plan_rank, flags))

    def stagger(self):
        """Waits if the server asks this rank to, so that the power of several jobs swings less; at most a tenth of an
        iteration. Called by the training thread, right before it begins an iteration.
        """
        self._check(self._library.lowgear_stagger(self._handle))

    def iteration_begin(self):
        """The next iteration begins: one after the last, or 0."""
        self._library.lowgear_iteration_begin(self._handle)

    def iteration_begin_at(self, number: int):
        """The iteration of this number begins: the framework's own, the same on all ranks. `iteration_begin` continues
        from it. A number at or below an earlier one says that training has gone back to a checkpoint: what is repeated
        is recorded, and not reported to the server again.

        Raises InvalidUse above 1,000,000,000.
        """
        if self._library.lowgear_iteration_begin_at(self._handle, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no iteration {number}")

    def iteration_end(self):
        self._library.lowgear_iteration_end(self._handle)

    #: As a microbatch: the next one, counted for each kind and stage from 0 in every iteration. None says the same.
    NEXT = _NEXT

    def unit_begin(self, kind: str, stage: int, microbatch: Optional[int] = None):
        """A unit begins: kind is forward, backward, input_gradient, weight_gradient, recomputation,
        recomputing_backward (a backward that repeats its forward), or forward_backward for one that does both in one.
        Two may be open at once.
        """
        number = _NEXT if microbatch is None else microbatch
        if self._library.lowgear_unit_begin(self._handle, _KINDS[kind], stage, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no unit {kind} {stage} {microbatch}")

    def unit_end(self, kind: str, stage: int, microbatch: Optional[int] = None):
        """It ends; without a microbatch: the one of this kind and stage that began as the next one last."""
        number = _NEXT if microbatch is None else microbatch
        if self._library.lowgear_unit_end(self._handle, _KINDS[kind], stage, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no unit {kind} {stage} {microbatch}")

    def expect(self, units: Optional[Iterable[Tuple[str, int, int]]], refuse: bool = True):
        """The units (kind, stage, microbatch) that this rank begins in every iteration, in order. From the next
        iteration on the marks are checked against them; the first difference ends following plans, as `refuse` does,
        unless `refuse` is False: then it is only counted. None or no units: nothing is expected any more.

        Called by the training thread.
        """
        wanted = [(_KINDS[kind], stage, microbatch) for kind, stage, microbatch in units or ()]
        array = (_library.UnitStruct * len(wanted))(*wanted)
        flags = 0 if refuse else _COUNT_DIFFERENCES
        self._check(self._library.lowgear_expect(self._handle, array, len(wanted), flags))

    def refuse(self, reason: str):
        """No more plans are followed for the life of this client: the GPU's clocks are given back, measuring continues,
        the server receives the reason. The first reason is kept.
        """
        self._check(self._library.lowgear_refuse(self._handle, reason.encode("utf-8", "replace")))

    def stop_following(self):
        """Plans are not followed until `follow_again`: the GPU's clocks are given back, measuring continues."""
        self._check(self._library.lowgear_stop_following(self._handle))

    def follow_again(self):
        """Undoes `stop_following`: the GPU is asked for again, and the newest plan of the server is followed from the
        iteration that the server names; a plan that was loaded is to be loaded again.

        Raises Refused after `refuse` or a schedule that differs.
        """
        self._check(self._library.lowgear_follow_again(self._handle))

    def report_decision(self, technique: str, change: str, *, from_iteration: int, configuration: str, reason: str):
        """Reports a decision about how the job runs to the server, which keeps it with the job and shows it. One rank
        of the job reports. Returns at once; without a server nothing happens.

        Args:
            technique, change: what decides and what it does, each a word of a-z, 0-9 and _: "freezing", "adopt".
            from_iteration: the first one that runs as it says.
            configuration: how the job runs from then on: "6 of 24 blocks frozen".
            reason: a sentence for a person.

        Raises InvalidUse where technique or change is no word.
        """
        texts = [text.encode("utf-8", "replace") for text in (technique, change, configuration, reason)]
        size = ctypes.sizeof(_library.DecisionStruct)
        decision = _library.DecisionStruct(size, from_iteration, *texts)
        self._check(self._library.lowgear_report_decision(self._handle, ctypes.byref(decision)))

    def report_work(self, layers: int, frozen_layers: int = 0, precision: str = "bf16"):
        """Reports what the job works on from now on to the server: layers of the model, how many are frozen, and the
        precision in which most is computed, as a word.

        Raises InvalidUse for layers that no model has.
        """
        self._check(self._library.lowgear_report_work(self._handle, layers, frozen_layers, _encode(precision)))

    def use_stream(self, handle: Optional[int]):
        """From now on marks count when the GPU gets to them on this stream: `torch.cuda.current_stream().cuda_stream`,
        where 0 is the default stream. None: when they are made, by the host. Cheap where the stream is the one before.

        Where the driver cannot do it, marks stay the host's and `status().stream_problem` says why. Called by the
        training thread, after the framework has chosen its GPU.
        """
        pointer = None if handle is None else handle or _LEGACY_STREAM
        self._check(self._library.lowgear_use_stream(self._handle, pointer))

    def search_operating_point(
        self,
        slowdown_pct: float,
        points: str = "clock",
        values: Optional[Iterable[float]] = None,
        block_s: float = 0,
        max_iterations: int = 0,
        record=None,
    ):
        """Searches the operating point at which an iteration uses least energy and takes at most `slowdown_pct` longer
        than at the first point, while the job trains, and has it run there until `close`. Returns at once;
        `operating_point()` says how it stands.

        Every rank calls it, once; all are on one node. No plan is followed any more. The first rank measures the GPUs of
        all and sets them through the agent. `points`: clock or power-limit; `values` in MHz or W, full speed first, are
        chosen where they are left out. `block_s` (30): least time for which a point is measured at once. `record`: file
        to which observations and decisions are appended.

        Raises InvalidUse where it cannot begin: a value, a server that plans the job, a GPU without an energy counter.
        """
        if points not in _POINTS:
            raise _library.InvalidUse(f"there are no operating points {points!r}; there are {', '.join(_POINTS)}")
        wanted = list(values or ())
        array = (ctypes.c_double * len(wanted))(*wanted) if wanted else None
        options = _library.SearchOptionsStruct(
            ctypes.sizeof(_library.SearchOptionsStruct),
            slowdown_pct,
            _POINTS[points],
            array,
            len(wanted),
            block_s,
            max_iterations,
            _encode(record),
        )
        self._check(self._library.lowgear_search_begin(self._handle, ctypes.byref(options)))

    def operating_point(self) -> OperatingPoint:
        """How the search stands: after `search_operating_point`, or under `lowgear run --search`."""
        result = _library.SearchStruct(ctypes.sizeof(_library.SearchStruct))
        self._check(self._library.lowgear_get_search(self._handle, ctypes.byref(result)))
        values = {field: getattr(result, field) for field in OperatingPoint._fields}
        state = _SEARCH_STATES[result.state]
        if state != "found":
            values.update(dict.fromkeys(("energy_pct", "energy_error_pct", "slowdown_pct", "slowdown_error_pct")))
        values.update(
            state=state,
            points=next(name for name, number in _POINTS.items() if number == result.points),
            value=result.value or None,
            reason=result.reason.decode("utf-8", "replace"),
        )
        return OperatingPoint(**values)

    @contextmanager
    def iteration(self):
        self.iteration_begin()
        try:
            yield
        finally:
            self.iteration_end()

    @contextmanager
    def unit(self, kind: str, stage: int, microbatch: Optional[int] = None):
        self.unit_begin(kind, stage, microbatch)
        try:
            yield
        finally:
            self.unit_end(kind, stage, microbatch)

    @contextmanager
    def window(self, name: str = ""):
        """Measures energy: `with client.window("epoch") as w: ...`, then `w.measurement.energy_j`."""
        number = ctypes.c_uint64()
        self._check(self._library.lowgear_window_begin(self._handle, name.encode(), ctypes.byref(number)))
        window = Window(name)
        try:
            yield window
        finally:
            result = _library.MeasurementStruct(ctypes.sizeof(_library.MeasurementStruct))
            self._check(self._library.lowgear_window_end(self._handle, number, ctypes.byref(result)))
            values = {field: getattr(result, field) for field in Measurement._fields[:8]}
            values = {field: None if value < 0 else value for field, value in values.items()}
            source = "integrated power" if result.by_power else "counter"
            window.measurement = Measurement(
                **values,
                simulated=bool(result.simulated),
                energy_source=None if values["energy_j"] is None else source,
                problem=result.problem.decode(errors="replace"),
            )

    def status(self) -> Status:
        # What a library does not know of yet it leaves as it is.
        result = _library.StatusStruct(ctypes.sizeof(_library.StatusStruct), pp_rank=-1, stage=-1, following=1)
        self._check(self._library.lowgear_get_status(self._handle, ctypes.byref(result)))
        flags = {"has_lease", "has_plan", "suspended", "dry_run", "simulated", "server_connected", "following", "stream_marks"}
        values = {}
        for field in Status._fields:
            value = getattr(result, field)
            if field in flags:
                value = bool(value)
            elif isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            values[field] = value
        return Status(**values)

    # The names of Zeus' PipelineFrequencyOptimizer, for code that calls it. Units are counted: the n-th forward of a
    # stage in a step is microbatch n.

    def on_step_begin(self):
        self._counts = {}
        self.iteration_begin()

    def on_step_end(self):
        self.iteration_end()

    def on_instruction_begin(self, name: str, stage: Optional[int] = None):
        """`name` is forward or backward; the stage is the one of this process, unless it is given.

        Raises InvalidUse where that is not certain: pass `stage` here, or `pp_rank` to the client.
        """
        if name not in _KINDS:
            return
        stage = self._stage() if stage is None else stage
        microbatch = self._counts.get((name, stage), 0)
        self._counts[name, stage] = microbatch + 1
        self._instruction = (name, stage, microbatch)
        self.unit_begin(*self._instruction)

    def on_instruction_end(self, name: str):
        if self._instruction is not None and self._instruction[0] == name:
            self.unit_end(*self._instruction)
            self._instruction = None

    def _stage(self):
        if self._own_stage is None:
            status = self.status()
            if status.stage < 0:
                raise _library.InvalidUse(status.place)
            self._own_stage = status.stage
        return self._own_stage
