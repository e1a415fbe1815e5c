"""``.segstore``: what recovery may count on of what this library wrote [DUR-64]."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.log.directory.checkpoints import LOG_STATE, MAX_CHECKPOINT_BYTES
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Directory

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


class TransactionIndexNote(NamedTuple):
    """What the transaction index of a segment was like when it was right [DUR-8, DUR-52].

    Its loss, or a changed bit, would make aborted records count as committed, and shows in no other
    file.
    """

    size_bytes: int
    """-1: it is damaged, and to be made anew."""
    crc: int | None = None
    """CRC-32C of its bytes; None when nobody has compared them with the log yet."""


DAMAGED_TRANSACTION_INDEX: Final = TransactionIndexNote(-1)


@dataclass(frozen=True, slots=True)
class LogState:
    """From which offsets on the log is contiguous and its epochs ascend, as this library wrote it.

    ``latest_epoch`` ties the file to the log: a broker that wrote here in between has raised the
    leader epoch, and then nothing of this holds any more. The file is written before the
    leader-epoch checkpoint: ``epochs_before`` are what that may still say after a crash between.
    """

    contiguous_from: int
    epochs_ordered_from: int
    latest_epoch: EpochEntry | None
    epochs_before: tuple[EpochEntry | None, ...] = ()
    transaction_indexes: Mapping[int, TransactionIndexNote] = field(default_factory=dict)
    """By the base offset of the segment: of sealed ones, and of all in a log that was closed."""
    local_log_start_offset: int = 0
    """What lies below it went while remote storage has it: its segments may be there in part."""

    def fits(self, latest: EpochEntry | None) -> bool:
        """Whether a leader-epoch checkpoint that ends so is that of who wrote this."""
        return latest == self.latest_epoch or latest in self.epochs_before

    def format(self) -> bytes:
        """Return the file's text, a word and a number a line."""
        lines = [
            "version 0",
            f"contiguous_from {self.contiguous_from}",
            f"epochs_ordered_from {self.epochs_ordered_from}",
        ]
        if self.latest_epoch is not None:
            lines.append(f"latest_epoch {self.latest_epoch.epoch} {self.latest_epoch.start_offset}")
        lines += [
            "epoch_before" if entry is None else f"epoch_before {entry.epoch} {entry.start_offset}"
            for entry in self.epochs_before
        ]
        lines += [
            f"transaction_index {base_offset} {note.size_bytes}"
            + ("" if note.crc is None else f" {note.crc}")
            for base_offset, note in sorted(self.transaction_indexes.items())
        ]
        if self.local_log_start_offset:
            lines.append(f"local_log_start_offset {self.local_log_start_offset}")
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def read(cls, directory: Directory) -> LogState | None:
        """Read the file of a partition directory, None where there is none that can be used."""
        if not directory.exists(LOG_STATE):
            return None
        return cls.parse(directory.read_file(LOG_STATE, MAX_CHECKPOINT_BYTES))

    @classmethod
    def parse(cls, data: bytes) -> LogState | None:
        """Read the file, None when it says nothing that can be used."""
        words: dict[str, list[int]] = {}
        transaction_indexes: dict[int, TransactionIndexNote] = {}
        for line in data.decode("ascii", errors="replace").splitlines():
            key, *numbers = line.split(" ")
            if not all(_INTEGER.fullmatch(number) for number in numbers):
                return None
            words[key] = [int(number) for number in numbers]
            if key == "transaction_index" and len(numbers) in {2, 3}:
                base_offset, *note = words[key]
                transaction_indexes[base_offset] = TransactionIndexNote(*note)
        latest = words.get("latest_epoch")
        try:
            if words["version"] != [0]:
                return None
            (contiguous_from,) = words["contiguous_from"]
            (epochs_ordered_from,) = words["epochs_ordered_from"]
            latest_epoch = None if latest is None else EpochEntry(latest[0], latest[1])
            (local_log_start_offset,) = words.get("local_log_start_offset", [0])
            before = words.get("epoch_before")
            epochs_before = () if before is None else (EpochEntry(*before) if before else None,)
        except (KeyError, ValueError, IndexError, TypeError):
            return None
        return cls(
            contiguous_from,
            epochs_ordered_from,
            latest_epoch,
            epochs_before,
            transaction_indexes,
            local_log_start_offset,
        )
