"""Rows with named columns, which print and draw themselves."""

from __future__ import annotations

import csv
import html
import io
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Type, TypeVar, Union

Row = TypeVar("Row")  # a NamedTuple
_SHOWN_ROWS = 12


def _text(value: Any) -> str:
    """A value for people; `to_csv` has all its digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
    return str(value)


class Table(Sequence[Row]):
    """Rows of one kind, each a named tuple. Column names end in their unit; columns without one are counts, names or shares.

    `table[3]` is a row, `table["time_s"]` a column as a list.
    """

    def __init__(self, kind: Type[Row], rows: Iterable[Row], title: str = ""):
        self._kind = kind
        self._rows = tuple(rows)
        self.title = title

    @property
    def columns(self) -> List[str]:
        """Names of the columns, in order."""
        return list(self._kind._fields)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __getitem__(self, key):
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"there is no column {key!r}; there are {', '.join(self.columns)}")
            return [getattr(row, key) for row in self._rows]
        if isinstance(key, slice):
            return Table(self._kind, self._rows[key], self.title)
        return self._rows[key]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> List[Dict[str, Any]]:
        """A dict for each row."""
        return [dict(zip(self.columns, row)) for row in self._rows]

    def to_csv(self, path: Union[str, "os.PathLike[str]", None] = None) -> Optional[str]:
        """The table as CSV with a header: returned, or written to `path`. Numbers keep all digits; unknown values are
        empty cells."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self._rows)
        if path is None:
            return out.getvalue()
        Path(path).write_bytes(out.getvalue().encode())
        return None

    def to_dataframe(self):
        """The table as a pandas.DataFrame. Raises ImportError where there is no pandas."""
        import pandas  # the caller's choice, and only here

        return pandas.DataFrame(self.records(), columns=self.columns)

    def _shown(self) -> List[List[str]]:
        return [[_text(value) for value in row] for row in self._rows[:_SHOWN_ROWS]]

    def _more(self) -> str:
        hidden = len(self._rows) - _SHOWN_ROWS
        return f"... {hidden} more" if hidden > 0 else ""

    def __repr__(self) -> str:
        lines = [self.columns, *self._shown()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
        return "\n".join(part for part in (text, self._more()) if part)

    def _repr_html_(self) -> str:
        shown = self._shown()
        # Columns without a value would make the table wider than its cell.
        used = [i for i in range(len(self.columns)) if not shown or any(line[i] for line in shown)]
        head = "".join(f"<th>{html.escape(self.columns[i])}</th>" for i in used)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(line[i])}</td>" for i in used) + "</tr>" for line in shown
        )
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        more = f"<p>{self._more()}</p>" if self._more() else ""
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x:auto">{table}</div>{more}'
