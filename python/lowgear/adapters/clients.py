"""The clients of a process, one after the other."""

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
        """Raises what opening the client raises."""
        self.session = self._open_session(job, refused, self._opened)
        self._opened += 1
        self._awaited = None

    def is_changed(self, job: Job) -> bool:
        """Whether the client there is was opened for another schedule or layout of ranks."""
        return self.session is not None and job is not self.session.job and job != self.session.job

    def is_second(self, job: Job) -> bool:
        """Whether another job begins that the iteration before was the first of: one alone, the last of an epoch for
        example, is none. To be asked once in every iteration of another job."""
        second = job == self._awaited
        self._awaited = job
        return second

    def forget_change(self) -> None:
        """The job that there is a client for runs on."""
        self._awaited = None

    def close(self) -> None:
        session, self.session = self.session, None
        try:
            if session is not None:
                session.client.close()
        except Exception as error:
            say(f"at the end: {error}")
