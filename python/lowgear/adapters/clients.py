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

    def is_changed(self, job: Job) -> bool:
        """Whether the client there is was opened for another schedule or layout of ranks."""
        return self.session is not None and job is not self.session.job and job != self.session.job

    def is_due(self, job: Job) -> bool:
        """Whether a client is to be opened for the iteration that begins. After a change not for the first one, which may
        be the only one of its kind."""
        if self.session is not None:
            return False
        is_due = self._awaited is None or job == self._awaited
        self._awaited = None if is_due else job
        return is_due

    def close_for(self, job: Job) -> None:
        """Another job begins, of which this is the first iteration."""
        self._awaited = job
        self.close()

    def close(self) -> None:
        session, self.session = self.session, None
        try:
            if session is not None:
                session.client.close()
        except Exception as error:
            say(f"at the end: {error}")
