"""Lengths of documents that the arguments of an iteration show."""

from typing import Any, Callable, Dict, List, Optional

_NAMES = ("position_ids", "cu_seqlens", "attention_mask")
_INSTEAD = "tell them: lowgear.tell_lengths (docs/attaching.md)"


def _rows(tensor: Any, microbatches: int) -> Optional[List[Any]]:
    """Of each microbatch, as PyTorch splits an argument: parts along its first dimension."""
    if tensor.dim() != 2 or tensor.shape[0] % microbatches:
        return None
    return list(tensor.chunk(microbatches))


def _documents(name: str, rows: Any) -> List[int]:
    """Lengths in the rows of a microbatch: each row begins a document."""
    if name == "attention_mask":
        return [length for length in (rows == 1).sum(1).tolist() if length > 0]
    lengths: List[int] = []
    for row in rows:
        if name == "cu_seqlens":
            lengths += [length for length in row.diff().tolist() if length > 0]
            continue
        begins = [begin for begin in (row == 0).nonzero().flatten().tolist() if begin > 0]
        lengths += [end - begin for begin, end in zip([0, *begins], [*begins, len(row)])]
    return lengths


def documents_in(
        arguments: Dict[str, Any], microbatches: int, say: Optional[Callable[[str], None]]) -> Optional[List[List[int]]]:
    """Lengths by microbatch: from `position_ids` (a document begins at 0), `cu_seqlens` or an `attention_mask` of 0 and 1,
    each with a row for each sequence. None where there are none on the CPU. `say` gets what a user can do about it."""
    for name in _NAMES:
        tensor = arguments.get(name)
        if not hasattr(tensor, "is_cuda"):
            continue
        if tensor.is_cuda:
            if say is not None:
                say(f"lengths are not read from {name} on a GPU, which would make the host wait; {_INSTEAD}")
            continue
        parts = _rows(tensor, microbatches)
        if parts is not None and name == "attention_mask" and not bool(((tensor == 0) | (tensor == 1)).all()):
            if say is not None:
                say(f"lengths are not read from an attention_mask of other values than 0 and 1; {_INSTEAD}")
        elif parts is not None:
            return [_documents(name, rows) for rows in parts]
    return None
