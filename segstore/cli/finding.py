"""What a check of a log has to say, in words that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it should be."""

    file: str
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Record offset concerned."""
    what: str
    meaning: str
    advice: str
    repaired: bool | None = None
    """Whether `recover` makes it good; None = nothing is done about it."""

    def __str__(self) -> str:
        where = self.file
        if self.position is not None:
            where += f", byte {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        return f"{where}: {self.what}\n    means: {self.meaning}\n    to do: {self.advice}"
