"""Converts `srun --lowgear=plan=DIR,slowdown=2%` (LOWGEAR_SLURM in the tasks) to options of `lowgear run`."""

VARIABLE = "LOWGEAR_SLURM"
OFF = "off"
# The option for a word with a value, whose percent sign is optional; None for a word without a value.
_OPTIONS = {"plan": "--plan", "server": "--server", "record": "--record", "slowdown": "--slowdown",
            "switch-latency": "--switch-latency", "points": "--points", "search-record": "--search-record", "search": None}


class OptionError(Exception):
    """--lowgear is invalid; the message has the remedy."""


def run_options(text):
    """The words of `lowgear run` before `--`; empty for `off`. Raises OptionError."""
    if text.strip() == OFF:
        return []
    values = {}
    for word in text.split(","):
        name, equals, value = word.strip().partition("=")
        if name not in _OPTIONS:
            raise OptionError(f"--lowgear: there is no {name!r}; write {', '.join(_OPTIONS)} or {OFF}")
        if name in values:
            raise OptionError(f"--lowgear: {name} is there twice")
        if _OPTIONS[name] is None and equals:
            raise OptionError(f"--lowgear: {name} has no value; write search,slowdown=2%")
        if _OPTIONS[name] is not None and not value:
            raise OptionError(f"--lowgear: {name} has no value; write {name}=...")
        values[name] = value
    return _words(values)


def _words(values):
    words = []
    if "search" in values:
        slowdown = values.pop("slowdown", "0").rstrip("%")
        words = ["--search", f"slowdown={slowdown}%"]
        del values["search"]
    for name, value in values.items():
        words += [_OPTIONS[name], value.rstrip("%") if name == "slowdown" else value]
    return words
