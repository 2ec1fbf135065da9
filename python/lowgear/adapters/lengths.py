"""The lengths of an iteration's documents, from the rank that knows them to all ranks, without a collective."""

import json
import queue
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

from .._lengths import Amounts
from .._torch import torch
from .job import Place
from .messages import say

_PERIOD_S = 0.02  # between two looks into the store, on a job of some hundred ranks
_REQUESTS_PER_S = 5000  # that all ranks together ask of the store
_IDLE_S = 0.2  # before any lengths are told
_EACH = 16  # replicas that are looked for one by one
_CHANGED = "changed"
_KEPT = 4  # iterations after which a key is deleted: ranks are no farther apart


def default_store() -> Any:
    """The store by which the ranks of a PyTorch job have found each other. None where there is none."""
    distributed = getattr(torch(), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()


class Lengths:
    """Hands every replica's lengths to the client of this process. The first pipeline rank of each replica puts them into
    the job's store; a thread of every rank looks for those of the next iterations there. A rank that never tells delays
    nobody. Where lengths are recorded alone only the rank that records `hears` them."""

    def __init__(self, place: Place, client: Any, error: type, store: Any, hears: bool):
        self._place, self._client, self._error, self._store = place, client, error, store
        self._hears = hears  # the client of this rank expects lengths
        self._own: Dict[int, List[Amounts]] = {}
        self._got: Set[Tuple[int, Any]] = set()  # iteration, and replica or _CHANGED
        self._said = False
        self._next = 0
        self._sent: Set[int] = set()  # iterations with a key in the store
        self._outbox: "queue.SimpleQueue" = queue.SimpleQueue()
        self._wake = threading.Event()
        self._ended = False
        self._thread: Optional[threading.Thread] = None
        if store is not None and (hears or self._tells):
            self._thread = threading.Thread(target=self._run, name="lowgear-lengths", daemon=True)
            self._thread.start()

    @property
    def _tells(self) -> bool:
        return self._place.pp_rank == 0 and self._place.tp_rank == 0

    def begins(self, iteration: int) -> None:
        self._next = iteration + 1

    def knows(self, iteration: int) -> bool:
        """Whether this rank has told them."""
        return iteration in self._own

    def tell(self, iteration: int, amounts: List[Amounts]) -> None:
        """Does not wait."""
        if not self._tells:
            return
        before = self._own.get(iteration)
        self._hand_over(iteration, self._place.dp_rank, amounts)
        if before is None:
            self._own[iteration] = amounts
            for old in [one for one in self._own if one < self._next - _KEPT]:
                del self._own[old]
        if self._thread is not None and before != amounts:
            self._outbox.put((iteration, amounts, before is not None))
            self._wake.set()

    def close(self) -> None:
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2)

    def _hand_over(self, iteration: int, replica: int, amounts: List[Amounts]) -> None:
        if not self._hears:
            return
        try:
            self._client.tell_lengths(iteration, replica, amounts)
        except self._error as error:
            if not self._said:
                self._said = True
                say(str(error))

    def _key(self, iteration: int, name: Any) -> str:
        return f"lowgear/lengths/{iteration}/{name}"

    def _run(self) -> None:
        try:
            while not self._ended:
                self._send()
                if self._hears:
                    for iteration in (self._next - 1, self._next, self._next + 1):
                        self._look_for(iteration)
                asked = max(1, self._place.dp if self._place.dp <= _EACH else 1)
                ranks = self._place.pp * self._place.dp * self._place.tp
                period_s = max(_PERIOD_S, asked * ranks / _REQUESTS_PER_S) if self._got else _IDLE_S
                self._wake.wait(period_s if self._hears else None)
                self._wake.clear()
        except Exception as error:  # the store has ended, as the job does
            if not self._ended and self._place.speaks and self._place.pp_rank == 0:
                say(f"lengths are not exchanged any more: {error}")

    def _send(self) -> None:
        while True:
            try:
                iteration, amounts, is_change = self._outbox.get_nowait()
            except queue.Empty:
                return
            self._store.set(self._key(iteration, self._place.dp_rank), json.dumps(amounts))
            if is_change:
                self._store.set(self._key(iteration, _CHANGED), str(self._place.dp_rank))
            self._sent.add(iteration)
            for old in [one for one in self._sent if one < self._next - _KEPT]:
                self._sent.remove(old)
                for name in (self._place.dp_rank, _CHANGED):
                    self._store.delete_key(self._key(old, name))

    def _look_for(self, iteration: int) -> None:
        replicas = [one for one in range(self._place.dp) if (iteration, one) not in self._got]
        if not replicas:
            self._look_for_change(iteration)
            return
        is_complete = self._store.check([self._key(iteration, replica) for replica in replicas])
        for replica in replicas:
            if is_complete or (len(replicas) <= _EACH and self._store.check([self._key(iteration, replica)])):
                self._got.add((iteration, replica))
                text = self._store.get(self._key(iteration, replica)).decode()
                self._hand_over(iteration, replica, [(tokens, squares) for tokens, squares in json.loads(text)])
        self._got = {key for key in self._got if key[0] >= self._next - _KEPT}

    def _look_for_change(self, iteration: int) -> None:
        """A change may have come before the lengths were read here, which then are the new ones: others follow."""
        if iteration < self._next or (iteration, _CHANGED) in self._got:
            return
        if self._store.check([self._key(iteration, _CHANGED)]):
            self._got.add((iteration, _CHANGED))
            self._hand_over(iteration, int(self._store.get(self._key(iteration, _CHANGED))), [])
