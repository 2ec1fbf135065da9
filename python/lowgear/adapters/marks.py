"""Marks of a process: iterations and units, compared with the schedule. One object in a process."""

import atexit
import mmap
import os
import sys
import threading
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple

from .._lengths import Told, amounts_of
from .._torch import current_cuda
from .clients import Clients
from .ending import Ending
from .inputs import documents_in
from .job import Job, Unit, first_difference, name_of
from .messages import is_first_rank, leave_reason, say, say_once
from .session import Session

#: Who marks where several adapters see a job: the one of the highest level, then the one that came first.
OPTIMIZER, FRAMEWORK, PIPELINE = range(3)
_MOST_TOLD = 1024


class Marks:
    """Opens the client when the first iteration begins, as process groups exist only then.

    A job that does not run what its schedule lists, or that is seen doing anything else unexpected, follows no plans any
    more and is only measured: that is said once.
    """

    def __init__(self, open_session: Callable[[Job, Optional[str], int], Session] = Session):
        self._clients = Clients(open_session)
        self._ending = Ending()
        self._source: Optional[str] = None
        self._level = -1
        self._off = False
        self._refused: Optional[str] = None
        self._units: List[Unit] = []
        self._open: Optional[Unit] = None
        self._running = False
        self._broken = False
        self._thread = 0
        self._adapters: Dict[str, Any] = {}
        self._told: List[Tuple[Optional[int], Told]] = []  # before there is a client
        self._process = 0  # that has the client
        self._said_in_forks = mmap.mmap(-1, 1)  # memory that forked processes share

    def adapter(self, source: str, make: Callable[[], Any]) -> Any:
        """The one object of an adapter, which may have hooks in several modules."""
        if source not in self._adapters:
            self._adapters[source] = make()
        return self._adapters[source]

    @property
    def _session(self) -> Optional[Session]:
        return self._clients.session

    @property
    def refused(self) -> Optional[str]:
        """Why no plan is followed; None: one may be."""
        return self._refused

    def running(self, source: str) -> bool:
        """Whether the adapter `source` marks, and an iteration runs."""
        return self._running and self._source == source

    def claim(self, source: str, level: int) -> bool:
        """Whether the adapter `source` marks from now on."""
        if source != self._source and level > self._level:
            self.pause()
            self._source, self._level = source, level
        return source == self._source and not self._off

    def begin(self, source: str, level: int, job: Callable[[], Job], number: Optional[int] = None) -> None:
        """Begins an iteration; the one before ends here at the latest. It calls `job` in every iteration, as the
        schedule may change. `number`: the framework's own count, the same on all ranks."""
        if not self.claim(source, level):
            return
        self.pause()
        cuda = current_cuda()
        if cuda is not None and cuda.is_current_stream_capturing():
            self.refuse("the iteration is captured in a CUDA graph, whose replays run no Python: units are not seen")
            return
        self._ending.forget()
        current = job()
        if self._session is None:
            self._open_client(current, self._refused)
        elif not self._clients.is_changed(current):
            self._clients.forget_change()
        elif not self._change(current):
            return
        if self._session is None:
            return
        told, self._told = self._told, []
        for iteration, lengths in told:
            self._session.tell((number or 0) if iteration is None else iteration, lengths)
        self._session.begin(number)
        self._running, self._broken, self._units = True, False, []
        self._thread = threading.get_ident()

    def tell(self, iteration: Optional[int], told: Told) -> None:
        """The lengths of this replica in an iteration; None: in the one that begins next."""
        if self._is_elsewhere():
            if is_first_rank() and self._said_in_forks[0] == 0:
                self._said_in_forks[0] = 1
                say("lowgear.tell_lengths was called in another process than the one that trains, such as a loader's worker, "
                    "and does nothing there: return the lengths with the batch, and tell them next to the training step")
        elif self._session is not None:
            self._session.tell(iteration, told)
        elif not self._off and len(self._told) < _MOST_TOLD:
            self._told.append((iteration, told))

    def _is_elsewhere(self) -> bool:
        """Whether this process is a child of the one that trains. A child that was forked before the first iteration may
        itself be a rank, unless PyTorch says that it loads data."""
        if self._session is not None and os.getpid() != self._process:
            return True
        loader = sys.modules.get("torch.utils.data")
        return loader is not None and loader.get_worker_info() is not None

    def tell_inputs(self, arguments: Dict[str, Any], microbatches: int) -> None:
        """Tells the lengths in the arguments of the iteration that runs, where they are missing and recorded: clocks need
        them before."""
        session = self._session
        if session is None or not session.lacks_lengths():
            return
        place = session.job.place
        documents = documents_in(arguments, microbatches, say_once if place.speaks and place.pp_rank == 0 else None)
        if documents is not None:
            session.tell(session.next_iteration - 1, [amounts_of(lengths) for lengths in documents])

    def pause(self) -> None:
        """Ends the iteration: an evaluation, a checkpoint or the next iteration follows. One that an exception of the job
        has cut off does not end, and counts nowhere."""
        if not self._running:
            return
        self.end_unit()
        self._running = False
        if self._broken:
            return
        self._session.client.iteration_end()
        expected = self._session.job.expected
        if expected is not None and not self._refused:
            difference = first_difference(expected, self._units)
            if difference:
                self.refuse(difference)

    def begin_unit(self, source: str, kind: str, stage: int, microbatch: int) -> bool:
        """False where it is not marked."""
        if not self.running(source) or self._off:
            return False
        if threading.get_ident() != self._thread:
            self.refuse(f"{name_of((kind, stage, microbatch))} runs in a second thread while others run in the first")
            return False
        self.end_unit()
        self._open = (kind, stage, microbatch)
        self._units.append(self._open)
        self._session.client.unit_begin(*self._open)
        return True

    def end_unit(self) -> None:
        unit, self._open = self._open, None
        if unit is not None:
            self._session.client.unit_end(*unit)

    def call(self) -> Generator[None, Any, Any]:
        """For observers: runs the job's call and returns its result. An exception of the job cuts the iteration off."""
        try:
            return (yield)
        except GeneratorExit:
            self._broken = True
            self.end_unit()
            raise

    def unit(self, source: str, kind: str, stage: int, microbatch: int) -> Generator[None, Any, Any]:
        """For observers of a call that is a unit."""
        marked = self.begin_unit(source, kind, stage, microbatch)
        result = yield from self.call()
        if marked:
            self.end_unit()
        return result

    def refuse(self, reason: str) -> None:
        """Ends following plans; measuring continues. It says the first reason and reports it to the server."""
        if self._refused:
            return
        self._refused = reason
        session = self._session
        if is_first_rank() if session is None else _speaks(session, reason):
            say(f"measuring only, the GPU's clocks are its own: {reason}")
        if session is not None and not session.refuse(reason):
            self._off, self._running, self._open = True, False, None
            self._clients.close()  # its library cannot do one without the other

    def fail(self, error: BaseException) -> None:
        """Handles an error of Lowgear in the middle of a job."""
        self.refuse(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """At the end of the process: ends the iteration, gives clocks back and completes the recording. Work after the
        last step of an optimizer is no iteration, nor is one in which the process fails."""
        self._off = True
        failure = self._ending.failure()
        try:
            if self._level > OPTIMIZER and failure is None:
                self.pause()
        except Exception as error:
            say(f"at the end: {error}")
        self._clients.end(failure)

    def _change(self, job: Job) -> bool:
        """Another number of microbatches, or another layout of ranks. Returns whether the iteration is measured."""
        if not self._session.is_served:
            problem = self._session.change(job)
            if problem:
                self.refuse(problem)
            return True
        if not self._clients.is_second(job):
            return False
        self._clients.close()
        # A rank that refuses is one of the next job, too: the others would wait for it.
        self._open_client(job, None)
        if self._refused and self._session is not None:
            self._session.refuse(self._refused)
        return True

    def _open_client(self, job: Job, refused: Optional[str]) -> None:
        for _ in range(2):  # the second time only to measure
            try:
                self._clients.open(job, refused)
                break
            except Exception as error:
                self._refused = refused = self._refused or str(error) or type(error).__name__
                problem = error
        if self._session is None:
            self._off = True
            if job.place.speaks:
                say(f"this job is not measured: {problem}")
                leave_reason(str(problem))
            return
        self._process = os.getpid()
        self._ending.watch()
        atexit.unregister(self.close)  # of an earlier client
        atexit.register(self.close)
        if job.place.speaks and job.place.pp_rank == 0:
            say(_attached(job, self._session.client.status()))
        if job.place.speaks and self._session.not_recorded:
            say(f"not recorded: {self._session.not_recorded}")
        if self._session.problem:
            self.refuse(self._session.problem)


def _speaks(session: Session, reason: str) -> bool:
    """Whether this rank says why no plan is followed: of what every rank finds, the first one."""
    place = session.job.place
    return place.speaks and (place.pp_rank == 0 or reason != session.problem_of_all)


def _attached(job: Job, status: Any) -> str:
    """The line for the user at the first iteration."""
    units = "iterations only" if job.orders is None else f"{len(job.expected or ())} units an iteration on this rank"
    # `lowgear run` has said what to do about the server.
    missing = [text for text in (status.problem, status.server_problem.partition("; ")[0]) if text]
    problems = f"; {'; '.join(missing)}" if missing else ""
    return f"attached to {job.framework}: pipeline of {job.place.pp}, {units}{problems}"
