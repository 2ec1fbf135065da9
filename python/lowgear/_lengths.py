"""`lowgear.tell_lengths`: the call with which a training script tells the lengths of its documents."""

import operator
import os
from typing import Iterable, List, Optional, Tuple, Union

from ._client import warn_once

Amounts = Tuple[int, int]  # tokens of a microbatch, and the squared lengths of its documents, summed
Told = Union[List[Amounts], str]  # of a replica's microbatches, or why the program told none

_MOST_ITERATIONS = 10**9
_MOST_TOKENS = 2**31


def amounts_of(lengths: Iterable[int]) -> Amounts:
    """Of a microbatch whose documents have these lengths."""
    if getattr(lengths, "is_cuda", False):
        raise ValueError("lengths on a GPU would make the host wait for it; give those that the loader knows")
    whole = [int(length) for length in (lengths.tolist() if hasattr(lengths, "tolist") else lengths)]
    if not all(0 <= length <= _MOST_TOKENS for length in whole):
        raise ValueError(f"a document has 0 to {_MOST_TOKENS} tokens")
    return sum(whole), sum(length * length for length in whole)


def tell_lengths(microbatches: Iterable[Iterable[int]], iteration: Optional[int] = None) -> None:
    """Tells `lowgear run --steps` (and `--record`) the lengths of the documents in an iteration before it begins:

        lowgear.tell_lengths([[812, 96], [300, 300, 308]], iteration=step + 1)
        schedule.step(batch)

    Every first pipeline rank calls it for its replica; calls of other ranks do nothing. Returns at once and does not
    raise. An iteration whose lengths are missing, come too late, or change after they were told runs at full clocks; one
    line says why. Without `lowgear run` the call does nothing.

    Args:
        microbatches: for each microbatch of this replica the lengths of its documents, in tokens.
        iteration: counted from 0 at the first iteration of this process, or as the framework numbers them (DeepSpeed).
            By default the one that begins next. A plan takes some time: tell lengths an iteration ahead.
    """
    from .adapters.core import complain, tell
    from .adapters.importing import is_asked_for

    if not is_asked_for(os.environ) or not any(os.environ.get(name) for name in ("LOWGEAR_STEPS", "LOWGEAR_RECORDING")):
        warn_once("tell_lengths does nothing: neither `lowgear run --steps` nor `--record` runs this program", 3)
        return
    try:
        if iteration is not None and not 0 <= operator.index(iteration) <= _MOST_ITERATIONS:
            raise ValueError(f"it is not from 0 to {_MOST_ITERATIONS}")
    except Exception as error:
        complain(f"tell_lengths: expected the number of an iteration: {error}")
        return
    told: Told
    try:
        told = [amounts_of(lengths) for lengths in microbatches]
    except Exception as error:
        told = f"tell_lengths: expected the lengths of documents for each microbatch: {error}"
        complain(told)
    tell(None if iteration is None else operator.index(iteration), told)
