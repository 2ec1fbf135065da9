"""The client of a process, opened when its framework knows the job."""

import itertools
import os
import warnings
from pathlib import Path
from typing import Any, Optional

from .. import _library
from .._lengths import Told
from .._torch import current_cuda, current_gpu, torch
from .job import Job, job_spec, schedule_csv
from .lengths import Lengths, Use, default_store
from .messages import say_once
from .plans import order_problem, plan_file


def _launch() -> dict:
    """Rank, size and GPU of this process where PyTorch knows them; the client finds out the rest."""
    found = {}
    distributed = getattr(torch(), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        found.update(rank=distributed.get_rank(), world_size=distributed.get_world_size())
    gpu = current_gpu()
    return found if gpu is None else dict(found, gpu=gpu)


def _has_client() -> bool:
    """Whether the program marks its units itself. Two clients of one process would claim the same rank."""
    import gc

    import lowgear

    return any(type(thing) is lowgear.Client and thing._handle for thing in gc.get_objects())


def _recording(rank: int, earlier: int) -> dict:
    """The folder for the recording of a process that had `earlier` clients: a part of its first recording."""
    name = os.environ.get("LOWGEAR_RECORDING")
    if not name or earlier == 0:
        return {}
    parts = (Path(name) / f"part-{number:05d}" for number in itertools.count(earlier))
    return {"recording": str(next(part for part in parts if not (part / f"rank-{rank:05d}").exists()))}


def _does_more_than_record() -> bool:
    """Whether a client has something to do where nothing can be recorded."""
    return any(os.environ.get(name) for name in ("LOWGEAR_SERVER", "LOWGEAR_PLAN", "LOWGEAR_STEPS", "LOWGEAR_SEARCH"))


def _refuse_two_sources() -> None:
    """As `lowgear run` does. Raises ValueError where step clocks and another variable are given."""
    for name in ("LOWGEAR_SERVER", "LOWGEAR_PLAN", "LOWGEAR_SEARCH"):
        if os.environ.get("LOWGEAR_STEPS") and os.environ.get(name):
            raise ValueError(f"LOWGEAR_STEPS and {name}: clocks come from one of them; unset LOWGEAR_STEPS or {name}")


class Session:
    """A client that was opened for one job, and its requests."""

    def __init__(self, job: Job, refused: Optional[str], earlier: int = 0):
        import lowgear

        if _has_client():
            raise RuntimeError("the program has a lowgear.Client of its own")
        if not refused:
            _refuse_two_sources()
        self.job = job
        self._error = lowgear.LowgearError
        self._stream: Optional[int] = None
        self._failed: set = set()
        self._planned: Optional[Job] = None
        self._lengths: Optional[Lengths] = None
        self._no_lengths = ""  # why
        self._earlier = earlier
        self.next_iteration = 0
        self.problem: Optional[str] = None
        self.problem_of_all: Optional[str] = None  # the one that every rank finds
        self.is_served = bool(os.environ.get("LOWGEAR_SERVER")) and not refused
        place = job.place
        ranks = {"pp_rank": place.pp_rank, "dp_rank": place.dp_rank, "tp_rank": place.tp_rank}
        # A refused job is not registered, as its order is not certain.
        serving = {"server": ""} if refused else {"job_spec": job_spec(job)}
        launch = _launch()
        recording = _recording(launch.get("rank", int(os.environ.get("RANK") or 0)), earlier)
        _library.load()  # `lowgear run` says what is missing where a program of its own would idle
        self.not_recorded: Optional[str] = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # likewise; a program may turn warnings into errors
            try:
                self.client = lowgear.Client(**launch, **ranks, **serving, **recording)
            except lowgear.LowgearError as error:
                if not _does_more_than_record():
                    raise
                # Where it is not the recording that cannot be made, this fails likewise.
                self.client = lowgear.Client(**launch, **ranks, **serving, recording="")
                self.not_recorded = str(error)
        if refused:
            self.refuse(refused)
        elif os.environ.get("LOWGEAR_PLAN"):
            self._planned = job
            self._load_plan(os.environ["LOWGEAR_PLAN"])
        self._records = bool(os.environ.get("LOWGEAR_RECORDING")) and not refused and not self.not_recorded
        if self._records:
            self._record_order(Path(os.environ["LOWGEAR_RECORDING"]))
        profile = "" if refused else os.environ.get("LOWGEAR_STEPS")
        if profile:
            self._planned = job
        if profile or self._records:
            self._expect_lengths(profile or None)
        if job.expected is not None and not refused:
            self._attempt("expect", job.expected, False)  # Python decides what a difference means: it knows more

    def _load_plan(self, name: str) -> None:
        import lowgear

        try:
            path = plan_file(name)
            try:
                self.client.load_plan(path, plan_rank=self.job.place.pp_rank)
            except lowgear.AgentUnavailable:
                pass  # the plan is kept for when there is one; the status says so
            self.problem = self.problem_of_all = order_problem(path, self.job.orders)
            place = self.job.place
            if path != Path(name) and place.speaks and place.pp_rank == 0:
                say_once(f"the plan that this job asks for is {path}")
        except (lowgear.LowgearError, OSError, ValueError) as error:
            self.problem = str(error)

    def _expect_lengths(self, profile: Optional[str]) -> None:
        """Of each iteration. Without a profile they are recorded alone, by one rank."""
        place = self.job.place
        if self.job.orders is None:
            self._no_lengths = "there is no pipeline whose units are marked"
            if profile:
                self.problem = "step clocks need a pipeline whose units are marked"
            return
        use = Use.PLAN if profile else Use.NONE
        if self._records and place.pp_rank == 0 and place.speaks:
            use |= Use.RECORD
        try:
            store = default_store()
            if store is None and place.pp * place.dp * place.tp > 1:
                raise RuntimeError("lengths do not reach other ranks, as torch.distributed is not initialized")
            if use:
                self.client.expect_lengths(
                    schedule_csv(self.job.orders), pp_rank=place.pp_rank, replica=place.dp_rank, replicas=place.dp,
                    profile=profile, clocks_per=os.environ.get("LOWGEAR_CLOCKS_PER") or "unit")
            self._lengths = Lengths(place, self.client, self._error, store, use, self._earlier)
        except (self._error, AttributeError, RuntimeError, ValueError) as error:
            self._no_lengths = str(error)
            if profile:
                self.problem = str(error)

    def tell(self, iteration: Optional[int], told: Told) -> None:
        """The lengths of this replica in an iteration; None: in the one that begins next."""
        if self._lengths is not None:
            self._lengths.tell(self.next_iteration if iteration is None else iteration, told)
        elif self._no_lengths and self._records and self.job.place.speaks and self.job.place.pp_rank == 0:
            say_once(f"lengths are not recorded: {self._no_lengths}")

    def lacks_lengths(self) -> bool:
        """Whether those of the newest iteration are recorded, and this rank has yet to tell them."""
        lengths = self._lengths
        return lengths is not None and self._records and lengths.tells and not lengths.knows(self.next_iteration - 1)

    def _record_order(self, folder: Path) -> None:
        """One rank leaves the job's order next to the recordings, as `lowgear plan --schedule` reads it."""
        place = self.job.place
        if self.job.orders is None or not place.speaks or place.pp_rank != 0:
            return
        unfinished = folder / ".schedule.csv"
        try:
            unfinished.write_text(schedule_csv(self.job.orders), encoding="utf-8")
            unfinished.replace(folder / "schedule.csv")
        except OSError:
            pass  # a disk that is full: the recording says so itself

    def _attempt(self, name: str, *arguments: Any) -> bool:
        """Calls a function that this machine or this job may not allow; False once it has failed. The client's status says
        why."""
        if name in self._failed:
            return False
        try:
            getattr(self.client, name)(*arguments)
        except self._error:
            self._failed.add(name)
            return False
        return True

    def begin(self, number: Optional[int]) -> None:
        cuda = current_cuda()
        if cuda is not None:
            stream = cuda.current_stream().cuda_stream
            if stream != self._stream and self._attempt("use_stream", stream):
                self._stream = stream
        if self.is_served:
            self._attempt("stagger")  # the server may delay iterations, where an operator wants that
        if number is not None:
            self.next_iteration = number
        if self._lengths is not None:
            self._lengths.begins(self.next_iteration)
        self.next_iteration += 1
        if number is None or not self._attempt("iteration_begin_at", number):
            self.client.iteration_begin()

    def change(self, job: Job) -> Optional[str]:
        """Another schedule runs from now on, and a plan that was loaded waits until its own does again. Returns why no plan
        is followed any more; None where one can be."""
        self.job = job
        self._attempt("expect", job.expected, False)
        if self._planned is None:
            return None
        if job != self._planned:
            stopped = self._attempt("stop_following")
            return None if stopped else "the plan is for another schedule than the job runs now"
        self._attempt("follow_again")
        if os.environ.get("LOWGEAR_PLAN"):
            self._load_plan(os.environ["LOWGEAR_PLAN"])
        return self.problem

    def refuse(self, reason: str) -> bool:
        """Gives clocks back; measuring continues. False where the library refuses."""
        return self._attempt("refuse", reason)

    def close(self, failure: Optional[str]) -> None:
        if self._lengths is not None:
            self._lengths.close()
        self.client.close(failure)

    def close_at_exit(self) -> None:
        """Python ends without an exception that it keeps: the process' exit status alone tells whether it ends well."""
        if self._lengths is not None:
            self._lengths.close()
        self.client._close_at_exit()
