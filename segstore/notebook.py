"""What a notebook shows of an object: a small table of names and values.

IPython asks for ``_repr_html_``. A class says what is shown, as pairs; the HTML is made here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MOST_LINES: Final = 20
"""Rows of a list, or lines of a report; what is left is counted."""
_FIRST_RECORDS: Final = 5
FIRST_OFFSETS: Final = 1000
"""Records are looked for among so many offsets: a range may have none for a long way."""
_MOST_CHARACTERS: Final = 80
_LEFT: Final = 'style="text-align:left"'


def as_html(pairs: Callable[[Any], Iterable[tuple[str, object]]]) -> Callable[[Any], str]:
    """Make a ``_repr_html_`` of a method that yields names and values.

    The ``repr`` of the object stands above them. A value may be a list of dictionaries with the
    same keys: the rows of a table of its own. Where the method fails, because the object is closed
    or damaged, its error is shown below what it has yielded.
    """

    @wraps(pairs)
    def _repr_html_(self: Any) -> str:
        shown = []
        try:
            for name, value in pairs(self):
                shown.append((name, value))
        except (SegstoreError, OSError, ImportError) as error:
            shown.append(("not shown", str(error)))
        rows = "".join(
            f"<tr><th {_LEFT}>{_escaped(name)}</th><td {_LEFT}>{_cell(value)}</td></tr>"
            for name, value in shown
        )
        title = _escaped(_shortened(repr(self), 5 * _MOST_CHARACTERS))
        return f"<table><caption {_LEFT}>{title}</caption>{rows}</table>"

    return _repr_html_


def text_as_html(self: object) -> str:
    """Show a report as it prints: a ``_repr_html_`` of classes that have a text."""
    lines = str(self).splitlines()
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... ({len(lines)} lines; print() shows all)"]
    return f"<pre>{_escaped(chr(10).join(lines))}</pre>"


def first_records(records: Iterable[Any], columns: Sequence[str]) -> list[dict[str, object]]:
    """Return the first of *records* as rows, of those *columns* that say something of each."""
    names = [name for name in _TEXT_OF_COLUMN if name in columns]
    return [
        {name: _TEXT_OF_COLUMN[name](getattr(record, name)) for name in names}
        for record in islice(records, _FIRST_RECORDS)
    ]


def _escaped(text: str) -> str:
    from html import escape  # 4 ms that no program needs but a notebook

    return escape(text)


def _cell(value: object) -> str:
    if not isinstance(value, list):
        return _escaped(_shortened(str(value), 10 * _MOST_CHARACTERS))
    if not value:
        return "none"
    rows = [[_shortened(str(cell)) for cell in row.values()] for row in value[:MOST_LINES]]
    if len(value) > MOST_LINES:
        rows.append([f"... ({len(value)})"])
    head = "".join(f"<th {_LEFT}>{_escaped(name)}</th>" for name in value[0])
    body = "".join(
        f"<tr>{''.join(f'<td {_LEFT}>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _time(milliseconds: int | None) -> object:
    if milliseconds is None or milliseconds < 0:
        return ""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return milliseconds
    return time.isoformat(" ", "milliseconds")


def _part(part: bytes | None) -> str:
    """Return bytes as text where they are some, else as Python shows them."""
    if part is None:
        return "null"
    start = part[: _MOST_CHARACTERS + 1]
    text = start.decode("utf-8", "ignore" if len(part) > len(start) else "replace")
    return text if text.isprintable() and "\ufffd" not in text else repr(start)


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return ", ".join(f"{key}={_part(value)}" for key, value in headers[:MOST_LINES])


_TEXT_OF_COLUMN: Final[dict[str, Callable[[Any], object]]] = {
    "partition": str,
    "offset": str,
    "timestamp": _time,
    "key": _part,
    "value": _part,
    "headers": _headers,
}
