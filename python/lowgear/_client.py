"""The client: marks units and iterations, hands over plans, measures energy."""

import ctypes
import json
import os
import time
import warnings
import weakref
from contextlib import contextmanager
from typing import Iterable, NamedTuple, Optional, Tuple

from . import _library
from ._keywords import with_suggestions
from ._units import KINDS
from ._windows import Measurement, Window, unmeasured_window

_CLOCKS_PER = {"unit": 0, "replica": 1}
_POINTS = {"clock": 0, "power-limit": 1}
_SEARCH_STATES = ("off", "waiting", "running", "found", "none", "cut_off", "elsewhere")
_NEAREST_BELOW = 1
_COUNT_DIFFERENCES = 1
_NEXT = 0xFFFFFFFF
_RANK_UNKNOWN = "pass pp_rank"  # in the library's error about a process whose rank in a plan is not certain
_NOTHING_HERE = "this machine has no GPU and no agent"
_LEGACY_STREAM = 1  # as the driver's interface names the default stream; runtime and PyTorch say 0


def _number_of(kind):
    try:
        return KINDS[kind]
    except KeyError:
        raise _library.InvalidUse(f"there is no kind of unit {kind!r}; there are {', '.join(KINDS)}") from None


class Status(NamedTuple):
    """State of a client. `problem` tells a person what does not work."""

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
    plan_version: int  # of the server's plan that the newest iteration has followed; 0: none
    reports_lost: int
    server_problem: str
    pp_rank: int  # in the pipeline; -1: not certain
    stage: int  # the only one of this rank; -1: not certain, or it has several
    place: str  # source of pp_rank and stage; or why they are not certain, and what to pass
    following: bool  # False after refuse, stop_following or a schedule that differs: plans are not followed
    stream_marks: bool  # True: the GPU makes the marks, in the order of its work (use_stream); False: the host does
    differing_iterations: int  # iterations that ran other units than `expect` names
    not_following: str  # why plans are not followed
    difference: str  # the first difference: "iteration 12, unit 5: expected backward 3 of stage 1, got forward 4 of stage 1"
    stream_problem: str  # why the host makes the marks although use_stream was called, or which marks were lost
    decisions_waiting: int  # decisions that the server has not received yet
    decisions_lost: int  # decisions that the server will not receive: it was away for too long


class OperatingPoint(NamedTuple):
    """State of the search of the operating point.

    `state`: off; waiting (for the GPUs, or the job's first iterations); running; found (the job runs at `value`); none (no
    point is shown to save energy); cut_off (the search could not end); elsewhere (the job's first rank searches). After
    none and cut_off the GPUs have their own settings.
    """

    state: str
    points: str  # clock or power-limit
    value: Optional[float]  # point at which the job runs now, in MHz or W; None: the GPUs' own choice
    energy_pct: Optional[float]  # of the point that was found, against the first point; below 0: it saves
    energy_error_pct: Optional[float]  # half the width of its 99 % interval
    slowdown_pct: Optional[float]
    slowdown_error_pct: Optional[float]
    iterations: int  # observed so far
    cost_time_s: float  # time of the search less that of the same iterations at the first point
    cost_energy_j: float
    reason: str  # newest decision with its numbers, or what the search waits for


def name_of_failure(kind: type, error: Optional[BaseException]) -> Optional[str]:
    """What an exception that ends the process is called, without its text; None: a good end."""
    if not issubclass(kind, SystemExit):
        return kind.__name__
    code = getattr(error, "code", None)
    if code is None or code == 0:
        return None
    return f"exit status {code}" if isinstance(code, int) else "exit status 1"  # a text may hold secrets


def _encode_option(name, value):
    """An option of the client, which is a text or a path."""
    if value is None or isinstance(value, (str, bytes, os.PathLike)):
        return None if value is None else os.fsencode(value)
    raise _library.InvalidUse(f"{name}: expected a text, not {value!r}")


def _utf8(name, text):
    if not isinstance(text, str):
        raise _library.InvalidUse(f"{name}: expected a text, not {text!r}")
    return text.encode("utf-8", "replace")


def _json(job_spec):
    try:
        return json.dumps(job_spec)
    except (TypeError, ValueError) as error:
        raise _library.InvalidUse(f"job_spec: {error}; give numbers, texts, lists and dicts") from None


_warned = False  # whether this process was told that it does not measure


def warn_once(message: str, stacklevel: int) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"lowgear: {message}", _library.LowgearWarning, stacklevel + 1)


def _end(library, handle):
    """Closes a client that is no longer referenced, or that is still open when Python exits: the library frees its data at
    process exit, and the client's threads must have ended by then. Calls with the emptied handle do nothing."""
    ended = ctypes.c_void_p(handle.value)
    handle.value = None
    return library.lowgear_close(ended)


class Client:
    """The client of a training process. One thread marks iterations and units. `with` closes the client.

    Every argument left out is taken from the environment: the rank from torchrun, Slurm, Open MPI or MPICH, the GPU from
    CUDA_VISIBLE_DEVICES, LOWGEAR_AGENT_SOCKET, LOWGEAR_JOB, LOWGEAR_RECORDING. `agent_socket=""` uses no agent.

    With `server` (LOWGEAR_SERVER) plans come from `lowgear serve`, and the job loads none. Several addresses, separated by
    commas, are those between which one server may move. `job_spec` (LOWGEAR_JOB_SPEC) then describes the job as in
    docs/server-api.md, as a dict or JSON, the same on all ranks.

    `pp_rank` (LOWGEAR_PP_RANK) is this process' rank in the pipeline, for plans, instructions and the server; `dp_rank`
    and `tp_rank` are its place among replicas and among ranks that share layers. In place of them `rank_order`
    (LOWGEAR_RANK_ORDER) may say how the job numbers its ranks: "megatron", "deepspeed", or axes such as
    "tp-cp-ep-dp-pp", that of neighbouring ranks first.

    Without a GPU and without an agent that the program or the environment names, the client warns once (LowgearWarning);
    the calls of a program then do nothing but keep time, so that it runs unchanged on a laptop.
    """

    @with_suggestions()
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
        self._library = _library.load_or_idle()
        options = _library.Options(
            ctypes.sizeof(_library.Options),
            _encode_option("agent_socket", agent_socket),
            _encode_option("gpu", gpu),
            _encode_option("job", job),
            _encode_option("recording", recording),
            _library.whole_number("rank", rank),
            _library.whole_number("local_rank", local_rank),
            _library.whole_number("world_size", world_size),
            _encode_option("server", server),
            _encode_option("token_file", token_file),
            _encode_option("job_spec", _json(job_spec) if isinstance(job_spec, dict) else job_spec),
            _library.whole_number("pp_rank", pp_rank),
            _library.whole_number("dp_rank", dp_rank),
            _library.whole_number("tp_rank", tp_rank),
            _encode_option("rank_order", rank_order),
        )
        handle = ctypes.c_void_p()
        self._check(self._library.lowgear_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._end = weakref.finalize(self, _end, self._library, handle)
        self._own_stage = None
        self._instruction = None
        self._counts = {}
        names_agent = agent_socket is not None or bool(os.environ.get("LOWGEAR_AGENT_SOCKET"))
        status = self.status()
        self._idles = not (names_agent or status.has_lease or status.gpu_uuid)
        if self._idles:
            warn_once(f"{_NOTHING_HERE}: clocks are not set and energy is not measured; the program runs on "
                      f"({status.problem})", 3)

    def _check(self, code):
        _library.check(self._library, code)

    def close(self, failure: Optional[str] = None):
        """Ends the lease, which gives the GPU its own clocks back, and completes the recording. May be called twice.

        `failure` is what ends the process, such as the type of an exception, without its text: server and `lowgear run`
        say then that the rank failed. Warns (RuntimeWarning) when the server does not answer.
        """
        if not self._end.alive:
            return
        try:
            self._check(self._library.lowgear_set_failure(self._handle, _encode_option("failure", failure)))
            status = self.status()
        finally:
            closed = self._end()
        self._check(closed)
        if status.server_problem and not status.server_connected:
            warnings.warn(f"no server: {status.server_problem}", RuntimeWarning, stacklevel=2)

    def _close_at_exit(self):
        """Closes it when this process exits: the exit status, which Python does not know, may be a failure."""
        if self._end.detach():
            self._check(self._library.lowgear_close_at_exit(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        self.close(None if kind is None else name_of_failure(kind, error))

    def load_plan(self, path, plan_rank: int = -1, nearest_below: bool = False):
        """Hands a plan over to the agent. `plan_rank` is the rank of the plan that this process is. With -1 the first of
        these decides that can: `pp_rank`; `rank_order`; the sizes of `job_spec` where only one is above 1; a job of one
        process; a plan of one rank or of as many ranks as the job has.

        Only this call takes a lease again that the administrator has ended.

        Raises Refused when the agent refuses the plan, AgentUnavailable without an agent (the plan is kept until there
        is one), InvalidUse when the file is no plan or the rank of this process is not certain: pass `pp_rank` to
        `Client(...)`. Without an agent and a GPU a plan does nothing, and nothing is raised for it.
        """
        flags = _NEAREST_BELOW if nearest_below else 0
        self._own_stage = None
        try:
            self._check(self._library.lowgear_load_plan(self._handle, _encode_option("path", path),
                                                       _library.whole_number("plan_rank", plan_rank), flags))
        except _library.AgentUnavailable:
            if not self._idles:
                raise
        except _library.InvalidUse as error:
            # Nothing follows the plan here: which rank of it this process is does not matter.
            if not self._idles or _RANK_UNKNOWN not in str(error):
                raise

    def stagger(self):
        """Waits, at most a tenth of an iteration, if the server asks this rank to, so that the power of several jobs
        swings less. The training thread calls it right before it begins an iteration.
        """
        self._check(self._library.lowgear_stagger(self._handle))

    def iteration_begin(self):
        """Begins the next iteration: number 0, or one more than the last."""
        self._library.lowgear_iteration_begin(self._handle)

    def iteration_begin_at(self, number: int):
        """Begins the iteration of the framework's own number, the same on all ranks. `iteration_begin` continues from it.
        A number at or below an earlier one means that training has gone back to a checkpoint: repeated iterations are
        recorded, but not reported to the server again.

        Raises InvalidUse above 1,000,000,000.
        """
        if self._library.lowgear_iteration_begin_at(self._handle, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no iteration {number}")

    def iteration_end(self):
        self._library.lowgear_iteration_end(self._handle)

    #: The next microbatch, counted from 0 in every iteration for each kind and stage. None means the same.
    NEXT = _NEXT

    def unit_begin(self, kind: str, stage: int, microbatch: Optional[int] = None):
        """Begins a unit. `kind` is forward, backward, input_gradient, weight_gradient, recomputation,
        recomputing_backward (a backward that repeats its forward) or forward_backward (the forward of one microbatch and
        the backward of another in one). Two units may be open at once.
        """
        number = _NEXT if microbatch is None else microbatch
        if self._library.lowgear_unit_begin(self._handle, _number_of(kind), stage, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no unit {kind} {stage} {microbatch}")

    def unit_end(self, kind: str, stage: int, microbatch: Optional[int] = None):
        """Ends a unit. Without a microbatch: the newest unit of this kind and stage that began as the next one."""
        number = _NEXT if microbatch is None else microbatch
        if self._library.lowgear_unit_end(self._handle, _number_of(kind), stage, number) == _library.INVALID:
            raise _library.InvalidUse(f"there is no unit {kind} {stage} {microbatch}")

    def expect(self, units: Optional[Iterable[Tuple[str, int, int]]], refuse: bool = True):
        """Names the units (kind, stage, microbatch) that this rank begins in every iteration, in order. The client checks
        the marks against them from the next iteration on. The first difference ends following plans, as the method
        `refuse` does; with `refuse=False` differences are only counted. None or no units end the check.

        The training thread calls it.
        """
        wanted = [(_number_of(kind), stage, microbatch) for kind, stage, microbatch in units or ()]
        array = (_library.UnitStruct * len(wanted))(*wanted)
        flags = 0 if refuse else _COUNT_DIFFERENCES
        self._check(self._library.lowgear_expect(self._handle, array, len(wanted), flags))

    def refuse(self, reason: str):
        """Ends following plans for the life of this client. The GPU gets its own clocks back, measuring continues, and the
        server receives the reason. The first reason is kept.
        """
        self._check(self._library.lowgear_refuse(self._handle, _utf8("reason", reason)))

    def stop_following(self):
        """Pauses following plans until `follow_again`. The GPU gets its own clocks back, measuring continues."""
        self._check(self._library.lowgear_stop_following(self._handle))

    def follow_again(self):
        """Undoes `stop_following`: requests the GPU again, and follows the newest plan of the server from the iteration
        that the server names. A plan that was loaded has to be loaded again.

        Raises Refused after `refuse` or a schedule that differs.
        """
        self._check(self._library.lowgear_follow_again(self._handle))

    def report_decision(self, technique: str, change: str, *, from_iteration: int, configuration: str, reason: str):
        """Reports a decision about how the job runs to the server, which keeps it with the job and shows it. One rank
        of the job reports. Returns at once; does nothing without a server.

        Args:
            technique, change: who decides and what the decision does, each a word of a-z, 0-9 and _: "freezing", "adopt".
            from_iteration: the first iteration that runs so.
            configuration: how the job runs from then on: "6 of 24 blocks frozen".
            reason: a sentence for a person.

        Raises InvalidUse where technique or change is no word.
        """
        texts = {"technique": technique, "change": change, "configuration": configuration, "reason": reason}
        decision = _library.DecisionStruct(
            ctypes.sizeof(_library.DecisionStruct), _library.whole_number("from_iteration", from_iteration),
            *[_utf8(name, text) for name, text in texts.items()])
        self._check(self._library.lowgear_report_decision(self._handle, ctypes.byref(decision)))

    def report_work(self, layers: int, frozen_layers: int = 0, precision: str = "bf16"):
        """Reports the job's work from now on to the server: layers of the model, number of frozen layers, and the main
        precision of its computations as a word.

        Raises InvalidUse for layers that no model has.
        """
        self._check(self._library.lowgear_report_work(
            self._handle, _library.whole_number("layers", layers), _library.whole_number("frozen_layers", frozen_layers),
            _encode_option("precision", precision)))

    def expect_lengths(self, schedule: str, *, pp_rank: int = 0, replica: int = 0, replicas: int = 1, profile=None, work=None,
                       clocks_per: str = "unit"):
        """Lengths of every iteration's documents will be told. With a `profile` that `lowgear profile` has written of a
        recording with lengths, each iteration runs at clocks for its own; without, lengths are recorded alone. Called once
        by the training thread.

        Args:
            schedule: the order of every pipeline rank, in PyTorch's CSV form.
            pp_rank, replica, replicas: this process' place.
            work: times by length; by default next to the profile.
            clocks_per: unit or replica.

        Raises InvalidUse where a file cannot be read or is not of this schedule, or a server plans the job.
        """
        if clocks_per not in _CLOCKS_PER:
            raise _library.InvalidUse(f"clocks_per: there is no {clocks_per!r}; there are {', '.join(_CLOCKS_PER)}")
        options = _library.LengthsOptionsStruct(
            ctypes.sizeof(_library.LengthsOptionsStruct), _encode_option("profile", profile), _encode_option("work", work),
            _utf8("schedule", schedule), _library.whole_number("pp_rank", pp_rank),
            _library.whole_number("replica", replica), _library.whole_number("replicas", replicas), _CLOCKS_PER[clocks_per])
        self._check(self._library.lowgear_expect_lengths(self._handle, ctypes.byref(options)))

    def tell_lengths(self, iteration: int, replica: int, microbatches: Iterable[Tuple[float, float]]):
        """The lengths of a replica's microbatches in an iteration: tokens of each, and the squared lengths of its documents,
        summed. Every process tells those of all replicas, the same on all. Returns at once.

        Raises InvalidUse where no lengths are expected or there is no such replica.
        """
        pairs = list(microbatches)
        array = (_library.AmountsStruct * len(pairs))(*pairs)
        self._check(self._library.lowgear_tell_lengths(self._handle, iteration, replica, array, len(pairs)))

    def use_stream(self, handle: Optional[int]):
        """From now on a mark takes effect when the GPU reaches it on this stream, such as
        `torch.cuda.current_stream().cuda_stream`; 0 is the default stream. With None a mark takes effect when the host makes
        it. A call with the same stream as before is cheap.

        Where the driver does not support it, the host continues to make the marks, and `status().stream_problem` says why.
        The training thread calls it after the framework has chosen its GPU.
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
        """Searches, while the job trains, the operating point at which an iteration uses least energy and takes at most
        `slowdown_pct` longer than at the first point. The job then runs there until `close`. Returns at once;
        `operating_point()` tells the state of the search.

        Every rank calls it once; all ranks are on one node. The client follows no plan any more. The first rank measures
        the GPUs of all ranks and sets them through the agent.

        Args:
            points: clock or power-limit.
            values: of the points, in MHz or W, full speed first; the library chooses them by default.
            block_s: shortest measurement of a point, in s (30).
            max_iterations: longest search.
            record: file to which observations and decisions are appended.

        Raises InvalidUse where the search cannot begin: for a wrong value, with a server that plans the job, or on a GPU
        without an energy counter.
        """
        if points not in _POINTS:
            raise _library.InvalidUse(f"there are no operating points {points!r}; there are {', '.join(_POINTS)}")
        if self._idles:
            return
        wanted = list(values or ())
        array = (ctypes.c_double * len(wanted))(*wanted) if wanted else None
        options = _library.SearchOptionsStruct(
            ctypes.sizeof(_library.SearchOptionsStruct),
            slowdown_pct,
            _POINTS[points],
            array,
            len(wanted),
            block_s,
            _library.whole_number("max_iterations", max_iterations),
            _encode_option("record", record),
        )
        self._check(self._library.lowgear_search_begin(self._handle, ctypes.byref(options)))

    def operating_point(self) -> OperatingPoint:
        """State of the search that `search_operating_point` or `lowgear run --search` has begun."""
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
            reason=_NOTHING_HERE if self._idles else result.reason.decode("utf-8", "replace"),
        )
        return OperatingPoint(**values)

    @contextmanager
    def iteration(self):
        """One iteration. One that raises does not end, and counts nowhere."""
        self.iteration_begin()
        yield
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
        """Measures energy: `with client.window("epoch") as w: ...`, then `w.energy_j`. Where there is no GPU to measure,
        energies are None, and `w.problem` says why.
        """
        window = Window(name)
        number = ctypes.c_uint64()
        code = self._library.lowgear_window_begin(self._handle, _utf8("name", name), ctypes.byref(number))
        if code in (_library.FAILED, _library.FORKED):
            forked = "the client belongs to the parent process; open one in this process"
            problem = forked if code == _library.FORKED else _library.last_error(self._library)
            with unmeasured_window(window, problem):
                yield window
            return
        self._check(code)
        begin_s = time.monotonic()
        try:
            yield window
        finally:
            # What a client that is gone leaves as it is.
            result = _library.MeasurementStruct(
                ctypes.sizeof(_library.MeasurementStruct), time.monotonic() - begin_s, *[-1] * 7,
                problem=b"the client is closed, or belongs to the parent process")
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
        """The client's state now."""
        result = _library.StatusStruct(ctypes.sizeof(_library.StatusStruct))
        self._check(self._library.lowgear_get_status(self._handle, ctypes.byref(result)))
        flags = {
            "has_lease",
            "has_plan",
            "suspended",
            "dry_run",
            "simulated",
            "server_connected",
            "following",
            "stream_marks",
        }
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
        """`name` is forward or backward. The stage is by default that of this process.

        Raises InvalidUse where that stage is not certain: pass `stage` here, or `pp_rank` to the client.
        """
        if name not in KINDS:
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
