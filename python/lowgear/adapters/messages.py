"""Messages to people, from one process of a job where all would write the same."""

import os
import sys


def say(text: str) -> None:
    """One line for people, in a way that cannot fail."""
    try:
        sys.stderr.write(f"lowgear: {text}\n")
        sys.stderr.flush()
    except Exception:
        pass


def leave_reason(text: str) -> None:
    """Why nothing attaches, which `lowgear run` repeats at its end."""
    mark = os.environ.get("LOWGEAR_ATTACHED_MARK")
    try:
        if mark:
            with open(f"{mark}.reason", "a", encoding="utf-8") as file:
                file.write(f"{text}\n")
    except Exception:
        pass


_SAID = set()


def say_once(text: str) -> None:
    if text not in _SAID and len(_SAID) < 20:
        _SAID.add(text)
        say(text)


def is_first_rank() -> bool:
    """Before a framework knows: as torchrun, Slurm, Open MPI or MPICH say."""
    names = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    return next((os.environ[name] for name in names if os.environ.get(name)), "0") == "0"
