"""How this process ends, as far as Python knows it."""

import functools
import sys
from typing import Optional

from .._client import name_of_failure


class Ending:
    """Python keeps the uncaught exception that ends a program in sys.last_value, but for SystemExit: calls of sys.exit are
    seen where they are made. What came before the newest iteration has ended nothing."""

    def __init__(self) -> None:
        self._seen: Optional[BaseException] = None
        self._exit: Optional[SystemExit] = None
        self._watches = False

    def watch(self) -> None:
        """Sees calls of sys.exit from now on."""
        if self._watches:
            return
        self._watches, original = True, sys.exit

        @functools.wraps(original)
        def leave(*code: object) -> None:
            self._exit = SystemExit(*code)
            original(*code)

        sys.exit = leave

    def forget(self) -> None:
        """An iteration begins."""
        self._seen, self._exit = getattr(sys, "last_value", None), None

    def failure(self) -> Optional[str]:
        """What ends the process, without its text; None: a good end."""
        error = getattr(sys, "last_value", None)
        if error is None or error is self._seen:
            error = self._exit
        return None if error is None else name_of_failure(type(error), error)
