"""The clients of a process, one after the other."""

import warnings
from typing import Callable, Optional

from .job import Job
from .messages import say
from .session import Session


class Clients:
    """A server knows a job by its schedule: a process that changes it is a rank of another job, with another client.

    Every rank sees such a change at the same iteration, and so decides alike without asking others.
    """

    def __init__(self, open_session: Callable[[Job, Optional[str], int], Session] = Session):
        self._open_session = open_session
        self._opened = 0
        self._awaited: Optional[Job] = None
        self.session: Optional[Session] = None

    def open(self, job: Job, refused: Optional[str]) -> None:
        """Opens a client for the job. Raises the exceptions of opening it."""
        self.session = self._open_session(job, refused, self._opened)
        self._opened += 1
        self._awaited = None

    def is_changed(self, job: Job) -> bool:
        """Whether the open client belongs to another schedule or layout of ranks."""
        return self.session is not None and job is not self.session.job and job != self.session.job

    def is_second(self, job: Job) -> bool:
        """Whether the iteration before had this other job, too: a single iteration, such as the last of an epoch, is
        no change. Call it once in every iteration of another job."""
        second = job == self._awaited
        self._awaited = job
        return second

    def forget_change(self) -> None:
        """Notes that the job of the open client continues."""
        self._awaited = None

    def close(self) -> None:
        """Closes the client of a process that continues."""
        self._close(lambda session: session.close(None))

    def end(self, failure: Optional[str]) -> None:
        """At the end of the process, which `failure` ends; None: none is known."""
        self._close(lambda session: session.close(failure) if failure else session.close_at_exit())

    def _close(self, close: Callable[[Session], None]) -> None:
        session, self.session = self.session, None
        try:
            if session is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # `lowgear run` says it in its last line
                    close(session)
        except Exception as error:
            say(f"at the end: {error}")
