"""A log directory that a real Kafka broker wrote, shipped with the package.

Topic ``orders``, two partitions of 700 records in segments of 64 KiB, closed cleanly by an Apache
Kafka 4.3.1 broker: what the demo and the README read when no other directory is at hand.
"""

from __future__ import annotations

import tarfile
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["extract_broker_sample"]

SAMPLE_FILE = "broker_sample.tar.xz"


def extract_broker_sample(target: Path) -> Path:
    """Write the sample below *target*, which is created, and return the broker's log directory.

    Parameters
    ----------
    target : Path
        A folder for the files; those of an earlier call are written anew.

    Returns
    -------
    Path
        Folder with ``orders-0``, ``orders-1``, the checkpoints and ``.kafka_cleanshutdown``.

    Raises
    ------
    OSError
        *target* cannot be written.
    """
    sample = resources.files("segstore") / "demo_data" / SAMPLE_FILE
    with sample.open("rb") as stream, tarfile.open(fileobj=stream, mode="r:xz") as archive:
        for member in archive:
            path = target / member.name
            content = archive.extractfile(member)  # None for a directory
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.write_bytes(content.read())
    return target / "data"
