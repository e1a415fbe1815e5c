"""The marker of a log directory that was closed cleanly (Kafka ``CleanShutdownFileHandler``).

That the file is there is what counts; the broker epoch in it says which run of a broker wrote it.

Source: [CKP-20..CKP-22], [format.md 15.4].
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, FileBarrier
from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES
from segstore.number_limits import MAX_LONG, MIN_LONG

if TYPE_CHECKING:
    from segstore._core import Directory

CURRENT_VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1


class CleanShutdownFileHandler:
    """``.kafka_cleanshutdown`` of one log directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def write(self, broker_epoch: int = NO_BROKER_EPOCH, *, version: int = CURRENT_VERSION) -> None:
        """Write the file in place, on stable storage when this returns [DUR-24].

        Parameters
        ----------
        broker_epoch : int
            Of the run that ends; -1 = none.
        version : int
            Of the format.
        """
        content = {"version": version, "brokerEpoch": broker_epoch}
        text = json.dumps(content, separators=(",", ":"))
        self._directory.create_file(CLEAN_SHUTDOWN_MARKER, text.encode(), FileBarrier.CLEAN_MARKER)

    def read(self) -> int | None:
        """Return the broker epoch, None where none can be read; never an error [CKP-21]."""
        try:
            data = self._directory.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
            epoch = json.loads(data)["brokerEpoch"]
        except SegstoreError:  # not there, too large, or no file at all
            return None
        except (ValueError, TypeError, KeyError, RecursionError):  # older brokers left it empty
            return None
        return epoch if type(epoch) is int and MIN_LONG <= epoch <= MAX_LONG else None

    @property
    def exists(self) -> bool:
        """Whether the file is there, whatever it holds [CKP-22]."""
        return self._directory.exists(CLEAN_SHUTDOWN_MARKER)

    def delete(self) -> None:
        """Remove the file, if it is there; when this returns, it is durably gone.

        A process that was killed after the unlink may have left a removal that is not durable.
        """
        if self.exists:
            self._directory.unlink(CLEAN_SHUTDOWN_MARKER, missing_ok=True)
        self._directory.sync(Barrier.CLEAN_MARKER_GONE)
