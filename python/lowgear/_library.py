"""liblowgear.so as ctypes sees it: structures, prototypes, errors."""

import ctypes
import operator
import os
from pathlib import Path

_ABI_MAJOR = 1
_ABI_MINOR = 6

_NVIDIA_DEVICE = "/dev/nvidiactl"  # there with every driver of NVIDIA

OK, INVALID, FAILED, REFUSED, NO_AGENT, FORKED = range(6)


class LowgearError(Exception):
    """A call failed; the message says why."""


class InvalidUse(LowgearError, ValueError):
    """An argument, a file or the environment is invalid."""


class Refused(LowgearError):
    """The agent has refused."""


class UnknownParameter(InvalidUse, TypeError):
    """A parameter or option of this name does not exist; the message names the closest one."""


class LowgearWarning(UserWarning):
    """A doubt about the input, or a client that can neither measure nor set clocks."""


class AgentUnavailable(LowgearError):
    """There is no agent. What was requested happens once there is one."""


class LibraryNotFound(LowgearError):
    """No library of this name is installed."""


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("agent_socket", ctypes.c_char_p),
        ("gpu", ctypes.c_char_p),
        ("job", ctypes.c_char_p),
        ("recording", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("local_rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("server", ctypes.c_char_p),
        ("token_file", ctypes.c_char_p),
        ("job_spec", ctypes.c_char_p),
        ("pp_rank", ctypes.c_int32),
        ("dp_rank", ctypes.c_int32),
        ("tp_rank", ctypes.c_int32),
        ("rank_order", ctypes.c_char_p),
    ]


class MeasurementStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_double)
        for name in (
            "time_s",
            "energy_j",
            "energy_uncertainty_j",
            "mean_power_w",
            "peak_power_w",
            "mean_sm_clock_mhz",
            "power_capped_s",
        )
    ] + [
        ("max_temperature_c", ctypes.c_int32),
        ("simulated", ctypes.c_int32),
        ("by_power", ctypes.c_int32),
        ("problem", ctypes.c_char * 256),
    ]


class UnitStruct(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("stage", ctypes.c_uint32), ("microbatch", ctypes.c_uint32)]


class DecisionStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("from_iteration", ctypes.c_uint64)] + [
        (name, ctypes.c_char_p) for name in ("technique", "change", "configuration", "reason")
    ]


class StatusStruct(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [
            (name, ctypes.c_int32)
            for name in ("rank", "world_size", "has_lease", "has_plan", "suspended", "dry_run", "simulated")
        ]
        + [("requested_clock_mhz", ctypes.c_uint32)]
        + [(name, ctypes.c_uint64) for name in ("units", "mismatched", "lost", "reconnects")]
        + [("gpu_uuid", ctypes.c_char * 96), ("problem", ctypes.c_char * 256)]
        + [("server_connected", ctypes.c_int32), ("plan_version", ctypes.c_int32)]
        + [("reports_lost", ctypes.c_uint64), ("server_problem", ctypes.c_char * 256)]
        + [("pp_rank", ctypes.c_int32), ("stage", ctypes.c_int32), ("place", ctypes.c_char * 256)]
        + [("following", ctypes.c_int32), ("stream_marks", ctypes.c_int32), ("differing_iterations", ctypes.c_uint64)]
        + [(name, ctypes.c_char * 256) for name in ("not_following", "difference", "stream_problem")]
        + [(name, ctypes.c_uint64) for name in ("decisions_waiting", "decisions_lost")]
    )


class LengthsOptionsStruct(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [(name, ctypes.c_char_p) for name in ("profile", "work", "schedule")]
        + [(name, ctypes.c_int32) for name in ("pp_rank", "replica", "replicas", "clocks_per")]
    )


class AmountsStruct(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_double), ("squared_tokens", ctypes.c_double)]


class SearchOptionsStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("slowdown_pct", ctypes.c_double),
        ("points", ctypes.c_int32),
        ("values", ctypes.POINTER(ctypes.c_double)),
        ("count", ctypes.c_size_t),
        ("block_s", ctypes.c_double),
        ("max_iterations", ctypes.c_int32),
        ("record", ctypes.c_char_p),
    ]


class SearchStruct(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t), ("state", ctypes.c_int32), ("points", ctypes.c_int32)]
        + [
            (name, ctypes.c_double)
            for name in ("value", "energy_pct", "energy_error_pct", "slowdown_pct", "slowdown_error_pct")
        ]
        + [("iterations", ctypes.c_int64), ("cost_time_s", ctypes.c_double), ("cost_energy_j", ctypes.c_double)]
        + [("reason", ctypes.c_char * 512)]
    )


def open_library(file, variable, candidates, named):
    """Opens a shared library: the one that the variable has named, or else the first candidate that loads. Raises
    LowgearError where none does."""
    candidates = [named] if named else candidates
    tried = []
    for name in candidates:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    is_there = any(map(os.path.exists, candidates))
    raise (LowgearError if is_there else LibraryNotFound)(
        f"{file} {'cannot be loaded' if is_there else 'is not found'} ("
        + "; ".join(tried)
        + f"); install Lowgear, or set {variable} to its path (build/release/lib/{file})"
    )


def _abi_version(library):
    try:
        function = library.lowgear_abi_version
    except AttributeError:
        raise LowgearError(
            f"{library._name} is not liblowgear.so: it lacks lowgear_abi_version; set LOWGEAR_LIBRARY to the path of "
            "liblowgear.so, or unset it"
        ) from None
    function.restype = ctypes.c_uint32
    return function()


class NoLibrary:
    """Stands in for liblowgear.so on a machine that has neither the library nor a GPU: no call does anything."""

    def __init__(self, problem):
        self._problem = problem.encode()

    def __getattr__(self, function):
        return lambda *_: OK

    def lowgear_last_error(self):
        return self._problem

    def lowgear_window_begin(self, *_):
        return FAILED

    def lowgear_get_status(self, _client, status):
        result = status._obj
        result.world_size, result.pp_rank, result.following = 1, -1, 1
        result.problem = result.place = self._problem[:255]
        return OK


def load():
    """Loads the library and declares its functions: the one that LOWGEAR_LIBRARY names; or the one in this package; or
    where the system looks; or that of the build folder, where the package is used from the source tree. Raises
    LowgearError when it is missing, of another version, or not Lowgear's."""
    package = Path(__file__).resolve().parent
    in_source_tree = package.parent.parent / "build" / "release" / "lib" / "liblowgear.so.1"
    candidates = [str(package / "liblowgear.so.1"), "liblowgear.so.1", "liblowgear.so", str(in_source_tree)]
    library = open_library("liblowgear.so", "LOWGEAR_LIBRARY", candidates, os.environ.get("LOWGEAR_LIBRARY"))
    version = _abi_version(library)
    if version >> 16 != _ABI_MAJOR or version & 0xFFFF < _ABI_MINOR:
        raise LowgearError(f"{library._name} is of another version than this package; install both from one release")
    client = ctypes.c_void_p
    unit = [client, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32]
    library.lowgear_last_error.restype = ctypes.c_char_p
    library.lowgear_open.argtypes = [ctypes.POINTER(Options), ctypes.POINTER(client)]
    library.lowgear_close.argtypes = [client]
    library.lowgear_set_failure.argtypes = [client, ctypes.c_char_p]
    library.lowgear_close_at_exit.argtypes = [client]
    library.lowgear_load_plan.argtypes = [client, ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint32]
    library.lowgear_iteration_begin.argtypes = [client]
    library.lowgear_iteration_end.argtypes = [client]
    library.lowgear_unit_begin.argtypes = unit
    library.lowgear_unit_end.argtypes = unit
    library.lowgear_window_begin.argtypes = [client, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]
    library.lowgear_window_end.argtypes = [client, ctypes.c_uint64, ctypes.POINTER(MeasurementStruct)]
    library.lowgear_get_status.argtypes = [client, ctypes.POINTER(StatusStruct)]
    library.lowgear_iteration_begin_at.argtypes = [client, ctypes.c_uint64]
    library.lowgear_expect.argtypes = [client, ctypes.POINTER(UnitStruct), ctypes.c_size_t, ctypes.c_uint32]
    library.lowgear_refuse.argtypes = [client, ctypes.c_char_p]
    library.lowgear_stop_following.argtypes = [client]
    library.lowgear_follow_again.argtypes = [client]
    library.lowgear_use_stream.argtypes = [client, ctypes.c_void_p]
    library.lowgear_search_begin.argtypes = [client, ctypes.POINTER(SearchOptionsStruct)]
    library.lowgear_get_search.argtypes = [client, ctypes.POINTER(SearchStruct)]
    library.lowgear_report_decision.argtypes = [client, ctypes.POINTER(DecisionStruct)]
    library.lowgear_report_work.argtypes = [client, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p]
    library.lowgear_expect_lengths.argtypes = [client, ctypes.POINTER(LengthsOptionsStruct)]
    library.lowgear_tell_lengths.argtypes = [client, ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(AmountsStruct),
                                             ctypes.c_size_t]
    library.lowgear_stagger.argtypes = [client]
    return library


def load_or_idle():
    """The library; NoLibrary where none is installed or named, on a machine without a GPU. Raises LowgearError otherwise."""
    try:
        return load()
    except LibraryNotFound as error:
        if os.environ.get("LOWGEAR_LIBRARY") or os.path.exists(_NVIDIA_DEVICE):
            raise
        return NoLibrary(str(error))


def whole_number(name, value):
    """A whole number of 32 bits, as ctypes would take the lowest bits of any other."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not -(2**31) <= number < 2**31:
        raise InvalidUse(f"{name}: expected a whole number, not {value!r}")
    return number


def last_error(library):
    return library.lowgear_last_error().decode("utf-8", "replace") or "invalid argument"


def check(library, code):
    """Raises the error of a code other than OK. The parent process' client does nothing in a child, without an error."""
    if code in (OK, FORKED):
        return
    kinds = {INVALID: InvalidUse, REFUSED: Refused, NO_AGENT: AgentUnavailable}
    raise kinds.get(code, LowgearError)(last_error(library))
