"""Segments copied to a folder of a simulated disk: what a crash or a failure may leave."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import LogNotFoundError, RemoteResourceNotFoundError, SegstoreError
from segstore.remote.storage.open_storage import open_remote_storage
from segstore.remote.storage.remote_storage_manager import IndexType, LogSegmentData
from segstore.remote.storage.segment_files import INDEXES, folder_name, stored_name
from segstore.remote.storage.source_file import read_pieces, size_of
from tests.crash.barrier_scene import Scene, new_disk
from tests.crash.failing_trial import CLOSED, GOES_ON, Trial
from tests.kits.remote_storage_kit import metadata_of

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.tiered_storage import TieredStorage
    from tests.crash.crash_check import Crash

LOCAL: Final = "/data"
REMOTE: Final = "/remote"
CONTENTS: Final = {
    "log": b"records " * 100,
    "index": b"offsets ",
    "timeindex": b"timestamps  ",
    "txnindex": b"aborted",
    "leader_epoch_checkpoint": b"0\n1\n0 0\n",
    "snapshot": b"producers",
}
DATA: Final = LogSegmentData(
    *(f"{LOCAL}/a.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")),
    CONTENTS["leader_epoch_checkpoint"],
)


def disk_with_a_segment() -> SimulatedDisk:
    """Return a disk with the files that are copied."""
    disk = new_disk()
    with closing(Directory(LOCAL, disk, create=True)) as directory:
        for suffix, content in CONTENTS.items():
            with DataFile(directory, f"a.{suffix}", create=True) as file:
                file.write(0, content)
                file.sync(Barrier.APPENDED_RECORDS)
        directory.sync(Barrier.APPENDED_NAMES)
    return disk


def storage_on(disk: SimulatedDisk) -> TieredStorage:
    return open_remote_storage(REMOTE, environment=disk)


def names_there(disk: SimulatedDisk, metadata: RemoteLogSegmentMetadata) -> set[str]:
    """Return the suffixes of the files that lie under the names of a segment."""
    try:
        directory = Directory(f"{REMOTE}/kafka-tiered-storage/{folder_name(metadata)}", disk)
    except LogNotFoundError:
        return set()
    with closing(directory):
        return {one for one in CONTENTS if directory.exists(stored_name(metadata, one))}


def is_whole(disk: SimulatedDisk, metadata: RemoteLogSegmentMetadata) -> bool:
    """Whether a reader takes a copy for a whole one; asserts that it is, then."""
    if not names_there(disk, metadata) >= CONTENTS.keys() - {"txnindex"}:
        return False
    storage = storage_on(disk)
    found = {"log": bytes(storage.fetch_log_segment(metadata, 0, 2**31))}
    for index, suffix in INDEXES.items():
        try:
            found[suffix] = bytes(storage.fetch_index(metadata, index))
        except RemoteResourceNotFoundError:
            assert index is IndexType.TRANSACTION
    assert found == CONTENTS
    return True


def copied_and_deleted() -> Scene:
    """A copy is whole until its deletion begins; then nothing is left of it [DUR-142]."""
    disk = disk_with_a_segment()
    storage = storage_on(disk)
    one, other = metadata_of(0, 9, 800), metadata_of(10, 19, 800)
    storage.copy_log_segment_data(one, DATA)
    copied = disk.effects
    storage.copy_log_segment_data(other, DATA)
    both = disk.effects
    storage.delete_log_segment_data(one)
    deleted = disk.effects
    storage.copy_log_segment_data(one, DATA)

    def check(crash: Crash) -> None:
        image = crash.image(disk)
        has_one, has_other = is_whole(image, one), is_whole(image, other)
        assert has_one or not copied <= crash.effects <= both
        assert has_other or crash.effects < both
        assert crash.effects != deleted or not names_there(image, one)

    return Scene(disk, check)


def copying() -> Trial:
    """Copies, reads and deletions: what fails leaves whole copies and others, which can be made."""
    disk = disk_with_a_segment()
    first, second = metadata_of(0, 9, 800), metadata_of(10, 19, 800)
    storage_on(disk).copy_log_segment_data(first, DATA)

    def run() -> None:
        storage = storage_on(disk)
        storage.copy_log_segment_data(second, DATA)
        assert bytes(storage.fetch_log_segment(second, 0, 800)) == CONTENTS["log"]
        assert bytes(storage.fetch_index(second, IndexType.OFFSET)) == CONTENTS["index"]
        assert size_of(DATA.log_segment, disk) == 800
        assert b"".join(read_pieces(DATA.log_segment, 300, disk)) == CONTENTS["log"]
        storage.delete_log_segment_data(first)
        storage.copy_log_segment_data(first, DATA)

    def check(error: SegstoreError | None) -> str:
        for fate in ("killed", "lost"):
            image = disk.crash_image(fate=fate)
            there = [is_whole(image, first), is_whole(image, second)]
            assert error is not None or all(there)
        again = storage_on(disk)
        for metadata in (first, second):
            again.delete_log_segment_data(metadata)
            assert not names_there(disk, metadata)
            again.copy_log_segment_data(metadata, DATA)
            assert is_whole(disk.crash_image(fate="lost"), metadata)
        return GOES_ON if error is None else CLOSED

    return Trial(disk, run, check)
