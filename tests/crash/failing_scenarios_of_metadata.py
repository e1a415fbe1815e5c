"""What a broker's disk knows of its cluster, read while calls fail [DUR-33, DUR-111]."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Barrier, DataFile, Directory
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.metadata_image_reader import METADATA_LOG, read_metadata_image
from tests.crash.barrier_scene import new_disk
from tests.crash.failing_trial import GOES_ON, Trial
from tests.kits.metadata_kit import metadata_batch, snapshot_bytes, topic_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import SegstoreError
    from segstore._core import SimulatedDisk

LOGS = "/data"
FILES = {
    f"{2:020}.log": metadata_batch(2, topic_records("clicks")) + bytes(99),
    f"{2:020}-{5:010}.checkpoint": snapshot_bytes([topic_records()]),
}


def broker(files: Mapping[str, bytes]) -> SimulatedDisk:
    """Return a disk with the metadata log of a broker, and who it is."""
    disk = new_disk()
    for path, content in (
        (LOGS, {"meta.properties": b"version=1\nnode.id=1\ncluster.id=a\n"}),
        (f"{LOGS}/{METADATA_LOG}", files),
    ):
        with closing(Directory(path, disk, create=True)) as directory:
            for name, data in content.items():
                with DataFile(directory, name, create=True) as file:
                    file.write(0, data)
                    file.sync(Barrier.APPENDED_RECORDS)
            directory.sync(Barrier.APPENDED_NAMES)
    return disk


def look(disk: SimulatedDisk) -> object:
    with closing(Directory(LOGS, disk)) as directory:
        identity = read_meta_properties(directory)
    return (
        identity,
        read_metadata_image(LOGS, disk),
        read_metadata_image(f"{LOGS}/{METADATA_LOG}", disk),
    )


def looking() -> Trial:
    """A read fails or is right: no part is left out."""
    expected = look(broker(FILES))
    disk = broker(FILES)
    seen: list[object] = []

    def check(error: SegstoreError | None) -> str:
        assert seen == ([] if error is not None else [expected])
        assert look(disk) == expected
        return GOES_ON

    return Trial(disk, lambda: seen.append(look(disk)), check)


METADATA_SCENARIOS: dict[str, Callable[[], Trial]] = {"read what a broker's disk knows": looking}
