"""The commands of docs/deploying.md, "Bare metal", in their order, with where they are run and what they print."""

import re
from dataclasses import dataclass
from pathlib import Path

NOT_RUN = "# not run"
PAGE = Path(__file__).resolve().parents[3] / "docs/deploying.md"


@dataclass(frozen=True)
class Block:
    """Commands between fences. `place`: the word after `sh`, empty where there is none. `expected`: the lines of the
    fence `text` that follows, of which each stands for a line of the output, `...` for anything."""
    line: int
    place: str
    text: str
    expected: tuple

    @property
    def is_run(self):
        return NOT_RUN not in self.text and self.place != ""


def section():
    """The section; lines before it are empty, so that its lines keep their numbers."""
    before, heading, rest = PAGE.read_text().partition("\n## Bare metal\n")
    return "\n" * before.count("\n") + heading + rest.partition("\n## ")[0] + "\n"


def blocks_of(text):
    found = []
    for match in re.finditer(r"^```(sh|text)(?: (\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if match[1] == "sh":
            found.append(Block(text.count("\n", 0, match.start()) + 1, match[2] or "", match[3], ()))
        elif found:
            last = found[-1]
            found[-1] = Block(last.line, last.place, last.text, tuple(match[3].splitlines()))
    return found


def missing_lines(expected, printed):
    """The expected lines that no line of the output matches, white space apart."""
    def matches(wanted, line):
        parts = [re.escape(part) for part in " ".join(wanted.split()).split("...")]
        return re.fullmatch(".*".join(parts), " ".join(line.split()))
    return [wanted for wanted in expected if not any(matches(wanted, line) for line in printed.splitlines())]
