"""The lengths of an iteration's documents, from the rank that knows them to all ranks, without a collective."""

import enum
import json
import queue
import threading
from typing import Any, Dict, List, Optional, Set

from .._lengths import Amounts, Told
from .._torch import torch
from .job import Place
from .messages import say, say_once

_PERIOD_S = 0.02  # between two looks into the store, or more where that many requests would be too many
_REQUESTS_PER_S = 5000  # of the first rank, and of all others together
_IDLE_S = 0.2  # before any lengths are told
_ALL, _CHANGED = "all", "changed"
_KEPT = 16  # iterations after which a key is deleted: ranks are no farther apart


class Use(enum.Flag):
    """Of lengths on a rank. One rank of a job records them: the first of the first replica."""

    NONE = 0
    PLAN = 1
    RECORD = 2


def default_store() -> Any:
    """The store by which the ranks of a PyTorch job have found each other. None where there is none."""
    distributed = getattr(torch(), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()


class Lengths:
    """Hands every replica's lengths to the client of this process, by threads and the job's store. The first pipeline rank
    of each replica puts its own there under one key. The first of them all gathers these, and puts all replicas' lengths
    under one key, for which the other ranks ask: only of the iteration that begins next, as a plan is of no use later.
    A rank that never tells delays nobody. Keys have the number of the process' `session`."""

    def __init__(self, place: Place, client: Any, error: type, store: Any, use: Use, session: int = 0):
        self._place, self._client, self._error, self._store = place, client, error, store
        self._use, self._session = use, session
        self._own: Dict[int, List[Amounts]] = {}
        self._next = 0
        self._outbox: "queue.SimpleQueue" = queue.SimpleQueue()
        self._wake = threading.Event()
        self._ended = False
        self._late: Dict[int, Dict[int, List[Amounts]]] = {}  # by iteration and replica
        # The thread's own:
        self._got: Dict[int, Dict[int, List[Amounts]]] = {}  # where this rank gathers
        self._complete: Set[int] = set()
        self._changed: Set[int] = set()
        self._sent: Dict[int, Set[Any]] = {}  # names of keys in the store, by iteration
        self._requests = 0
        self._thread: Optional[threading.Thread] = None
        if store is not None and (use or self.tells):
            self._thread = threading.Thread(target=self._run, name="lowgear-lengths", daemon=True)
            self._thread.start()

    @property
    def tells(self) -> bool:
        """Whether the lengths of this rank's replica are this rank's to tell."""
        return self._place.pp_rank == 0 and self._place.tp_rank == 0

    @property
    def _gathers(self) -> bool:
        return self.tells and self._place.dp_rank == 0

    def begins(self, iteration: int) -> None:
        self._next = iteration + 1
        if self._thread is None:
            self._hand_over_late(iteration)

    def knows(self, iteration: int) -> bool:
        """Whether this rank has told them."""
        return iteration in self._own

    def tell(self, iteration: int, told: Told) -> None:
        """Does not wait."""
        if not self.tells:
            return
        amounts = [] if isinstance(told, str) else told
        before = self._own.get(iteration)
        if before is None:
            self._own[iteration] = amounts
            for old in [one for one in self._own if one < self._next - _KEPT]:
                del self._own[old]
        if self._thread is None:
            self._deliver(iteration, self._place.dp_rank, amounts)
        elif before != amounts:
            self._outbox.put((iteration, told, before is not None))
            self._wake.set()

    def close(self) -> None:
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2)
        else:
            self._hand_over_late(self._next)

    def _hand_over(self, iteration: int, replica: int, amounts: List[Amounts]) -> None:
        if not self._use:
            return
        try:
            self._client.tell_lengths(iteration, replica, amounts)
        except self._error as error:
            if self._gathers:
                say_once(str(error))

    def _run(self) -> None:
        try:
            while not self._ended:
                self._requests = 0
                self._send()
                self._look()
                self._wake.wait(self._pause_s())
                self._wake.clear()
            self._send()
            self._look()
            # Another rank may yet read the newest.
            self._delete_before(self._next - 1)
        except Exception as error:  # the store has ended, as the job does
            if not self._ended and self._gathers:
                say(f"lengths are not exchanged any more: {error}")
        self._hand_over_late(self._next)

    def _pause_s(self) -> Optional[float]:
        if not self._use:
            return None
        sharing = 1 if self._gathers else self._place.pp * self._place.dp * self._place.tp
        pause_s = max(_PERIOD_S, self._requests * sharing / _REQUESTS_PER_S)
        return pause_s if self._got or self._complete else max(_IDLE_S, pause_s)

    def _look(self) -> None:
        if self._gathers:
            first = max(0, self._next - _KEPT) if Use.RECORD in self._use else self._next
            for iteration in range(first, self._next + 2):
                self._gather(iteration)
        elif self._use:
            self._read_all(self._next)
        if self._use:
            self._look_for_change(self._next)
        self._hand_over_late(self._next - 1)
        oldest = self._next - _KEPT
        self._got = {iteration: got for iteration, got in self._got.items() if iteration >= oldest}
        self._complete = {iteration for iteration in self._complete if iteration >= oldest}
        self._changed = {iteration for iteration in self._changed if iteration >= oldest}

    # Keys

    def _key(self, iteration: int, name: Any) -> str:
        return f"lowgear/lengths/{self._session}/{iteration}/{name}"

    def _has(self, iteration: int, names: List[Any]) -> bool:
        self._requests += 1
        return self._store.check([self._key(iteration, name) for name in names])

    def _get(self, iteration: int, name: Any) -> Any:
        self._requests += 1
        return json.loads(self._store.get(self._key(iteration, name)).decode())

    def _set(self, iteration: int, name: Any, value: Any) -> None:
        self._store.set(self._key(iteration, name), json.dumps(value))
        self._sent.setdefault(iteration, set()).add(name)

    def _delete_before(self, iteration: int) -> None:
        for old in [one for one in self._sent if one < iteration]:
            for name in self._sent.pop(old):
                self._store.delete_key(self._key(old, name))

    # Exchange

    def _send(self) -> None:
        while True:
            try:
                iteration, told, is_change = self._outbox.get_nowait()
            except queue.Empty:
                break
            if is_change:
                self._set(iteration, _CHANGED, self._place.dp_rank)
            if not self._gathers:
                self._set(iteration, self._place.dp_rank, told)
            elif not is_change:
                self._add(iteration, self._place.dp_rank, told)
        self._delete_before(self._next - _KEPT)

    def _gather(self, iteration: int) -> None:
        """Reads those of single replicas only where the client plans: it says whose are missing."""
        got = self._got.get(iteration, {})
        missing = [replica for replica in range(1, self._place.dp) if replica not in got]
        if not missing:
            return
        is_complete = self._has(iteration, missing)
        for replica in missing:
            if is_complete or (Use.PLAN in self._use and iteration == self._next and self._has(iteration, [replica])):
                self._add(iteration, replica, self._get(iteration, replica))

    def _add(self, iteration: int, replica: int, told: Told) -> None:
        if isinstance(told, str) and replica != self._place.dp_rank:
            say_once(f"replica {replica}: {told}")
        amounts = [] if isinstance(told, str) else [(tokens, squares) for tokens, squares in told]
        got = self._got.setdefault(iteration, {})
        got[replica] = amounts
        self._deliver(iteration, replica, amounts)
        if len(got) == self._place.dp:
            self._complete.add(iteration)
            if iteration >= self._next and Use.PLAN in self._use:
                self._set(iteration, _ALL, [got[one] for one in range(self._place.dp)])

    def _read_all(self, iteration: int) -> None:
        if iteration in self._complete or not self._has(iteration, [_ALL]):
            return
        self._complete.add(iteration)
        for replica, amounts in enumerate(self._get(iteration, _ALL)):
            self._hand_over(iteration, replica, [(tokens, squares) for tokens, squares in amounts])

    def _look_for_change(self, iteration: int) -> None:
        """Hands over a change as empty lengths, which differ from any: this rank may have read the new ones as the first."""
        if iteration not in self._complete or iteration in self._changed:
            return
        if self._has(iteration, [_CHANGED]):
            self._changed.add(iteration)
            self._hand_over(iteration, self._get(iteration, _CHANGED), [])

    def _deliver(self, iteration: int, replica: int, amounts: List[Amounts]) -> None:
        """Lengths of an iteration that has begun are for the recording alone. Where the client plans, too, they wait until
        the next one begins: it has then counted this one as begun before its lengths were told."""
        if iteration >= self._next or self._use == Use.RECORD:
            self._hand_over(iteration, replica, amounts)
        elif Use.RECORD in self._use:
            self._late.setdefault(iteration, {})[replica] = amounts

    def _hand_over_late(self, before: int) -> None:
        for iteration in [one for one in self._late if one < before]:
            for replica, amounts in self._late.pop(iteration).items():
                self._hand_over(iteration, replica, amounts)
