"""What a program has written so far into a file of JSON lines."""

import json


def lines_of(path):
    """Those that are complete; none while there is no such file."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def losses_of(path):
    """Step and loss of every line of metrics."""
    return [(line["step"], line["loss"]) for line in lines_of(path)]
