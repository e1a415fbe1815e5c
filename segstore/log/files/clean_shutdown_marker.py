"""The marker of a partition that was opened alone and closed cleanly [DUR-24, DUR-65]."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from segstore._core import crc32c
from segstore.number_limits import MAX_LONG
from segstore.types import EpochEntry

_LATER: Final = (
    "segments",
    "sizeInBytes",
    "logStartOffset",
    "directoryInode",
    "activeChangedNs",
    "filesFingerprint",
)
"""What markers of earlier versions do not have."""
_CRC_KEY: Final = b', "crc": '


@dataclass(frozen=True, slots=True)
class CleanShutdownMarker:
    """What a cleanly closed log looked like; a marker that does not fit the files is an old one.

    A broker that ran in between leaves this file in place: it shows in the log end, in the size of
    the active segment, or in the leader epoch, which a broker raises before it writes. A segment
    that was lost, or that a broker compacted, shows in the number and the size of all of them.
    ``log_start_offset`` lies above the log end when a truncation cut into the batch that it is in.
    ``directory_inode`` is another one where the log was copied, ``active_changed_ns``, the last
    change of the active ``.log``, where the copy got the inode of what it replaces: nothing of a
    copy need be on the disk.
    """

    log_end_offset: int
    active_base_offset: int
    active_size_bytes: int
    latest_epoch: EpochEntry | None
    segments: int | None = None
    size_bytes: int | None = None
    log_start_offset: int | None = None
    directory_inode: int | None = None
    active_changed_ns: int | None = None
    files_fingerprint: int | None = None
    has_crc: bool = True

    def fits(
        self, segments: int, size_bytes: int, active: tuple[int, int, EpochEntry | None]
    ) -> bool:
        """Whether the ``.log`` files, so many of so many bytes, are those that were there.

        *active* is base offset and size of the last one, and the latest epoch.
        """
        if self.segments is not None and self.segments != segments:
            return False
        if self.size_bytes is not None and self.size_bytes != size_bytes:
            return False
        return self.fits_end(active)

    def fits_end(self, active: tuple[int, int, EpochEntry | None]) -> bool:
        """Whether the log ends as it did: a segment before that may be lost, or compacted."""
        return active == (self.active_base_offset, self.active_size_bytes, self.latest_epoch)

    def format(self) -> bytes:
        """Return the file's text, JSON with Kafka's ``version``, and a CRC-32C of the others."""
        epoch = self.latest_epoch
        fields = {
            "version": 0,
            "logEndOffset": self.log_end_offset,
            "activeBaseOffset": self.active_base_offset,
            "activeSizeInBytes": self.active_size_bytes,
            "latestEpoch": None if epoch is None else [epoch.epoch, epoch.start_offset],
            "segments": self.segments,
            "sizeInBytes": self.size_bytes,
            "logStartOffset": self.log_start_offset,
            "directoryInode": self.directory_inode,
            "activeChangedNs": self.active_changed_ns,
            "filesFingerprint": self.files_fingerprint,
        }
        return _with_crc(json.dumps(fields).encode())

    @classmethod
    def parse(cls, data: bytes) -> CleanShutdownMarker | None:
        """Read a marker, None when *data* is not one (then the stop does not count as clean).

        One of older versions also says what the transaction index of the active segment was like:
        that is not asked. One without a CRC, as still older ones wrote it, confirms a log start and
        tells none: a flipped bit there would take records away.
        """
        try:
            fields: Any = json.loads(data)
            crc = fields.pop("crc", None)
            if crc is not None and data != _with_crc(data.rpartition(_CRC_KEY)[0] + b"}"):
                return None
            latest = fields["latestEpoch"]
            segments, size_bytes, log_start_offset, inode, changed_ns, fingerprint = (
                None if number is None else _whole_number(number)
                for number in map(fields.get, _LATER)
            )
            return cls(
                _whole_number(fields["logEndOffset"]),
                _whole_number(fields["activeBaseOffset"]),
                _whole_number(fields["activeSizeInBytes"]),
                None
                if latest is None
                else EpochEntry(_whole_number(latest[0]), _whole_number(latest[1])),
                segments,
                size_bytes,
                log_start_offset,
                inode,
                changed_ns,
                fingerprint,
                has_crc=crc is not None,
            )
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None


def _with_crc(text: bytes) -> bytes:
    return b"%s%s%d}" % (text[:-1], _CRC_KEY, crc32c(text))


def _whole_number(value: object) -> int:
    """Return a number of a marker; JSON has others, and some that no ``int`` takes."""
    if type(value) is not int or not 0 <= value <= MAX_LONG:
        raise ValueError(value)
    return value
