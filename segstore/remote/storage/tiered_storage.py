"""Remote storage in the layout of Kafka's ``LocalTieredStorage``, in a folder or a bucket.

A copy is whole when all of its files are there but the transaction index, which may not be needed.
So the producer snapshot is put last, after the others are durable, and deleted first: a copy or a
deletion that was interrupted is never taken for a whole copy [DUR-142].
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError, RetriableRemoteStorageError
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.storage.segment_files import INDEXES, LOG, WHOLE, folder_name, stored_name

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.remote_storage_manager import LogSegmentData
    from segstore.remote.storage.writable_store import WritableStore


class TieredStorage:
    """Keeps segments as files beside their indexes [TIER-95]; from `open_remote_storage`.

    Parameters
    ----------
    store : WritableStore
        Where ``kafka-tiered-storage`` is, or will be.
    """

    def __init__(self, store: WritableStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"TieredStorage({self._store.url!r})"

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> None:
        """Copy a segment, in the place of an earlier copy with its id [TIER-10].

        It is durable when this returns. What a failed copy has put is removed [TIER-96], unless the
        store cannot be reached: it is not whole, and goes by `delete_log_segment_data` [TIER-46].

        Raises
        ------
        RemoteStorageError
            The store refused it; with a class of its own where a later call may succeed.
        SegstoreError
            A file of the segment cannot be read.
        """
        folder = folder_name(metadata)
        files: dict[str, str | bytes] = {
            LOG: data.log_segment,
            INDEXES[IndexType.OFFSET]: data.offset_index,
            INDEXES[IndexType.TIMESTAMP]: data.time_index,
            INDEXES[IndexType.LEADER_EPOCH]: data.leader_epoch_index,
        }
        replaced = [WHOLE]
        if data.transaction_index is None:
            replaced.append(INDEXES[IndexType.TRANSACTION])
        else:
            files[INDEXES[IndexType.TRANSACTION]] = data.transaction_index
        whole = stored_name(metadata, WHOLE)
        try:
            self._store.delete(folder, [stored_name(metadata, one) for one in replaced])
            named = {stored_name(metadata, suffix): files[suffix] for suffix in files}
            self._store.put(folder, named)
            self._store.put(folder, {whole: data.producer_snapshot_index})
        except RetriableRemoteStorageError:
            raise
        except BaseException:
            with suppress(Exception):  # the first error is the one to be told
                self.delete_log_segment_data(metadata)
            raise

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes | memoryview:
        """Return bytes ``[start_position, end_position)`` of the segment, as far as it has them.

        Raises
        ------
        RemoteResourceNotFoundError
            There is no copy with this id.
        RemoteStorageError
            The store cannot be read.
        IllegalArgumentError
            This is no range [TIER-97].
        """
        if not 0 <= start_position <= end_position:
            raise IllegalArgumentError(
                "this is no range of a segment",
                found=f"bytes {start_position} to {end_position}",
                expected="a start from 0 on, and an end from the start on",
            )
        name = stored_name(metadata, LOG)
        return self._store.get(folder_name(metadata), name, start_position, end_position)

    def log_segment_folder(self, metadata: RemoteLogSegmentMetadata) -> Directory | None:
        """Return the open folder of a segment that is a file; see `StorageOfFiles`."""
        return self._store.open_folder(folder_name(metadata))

    def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes | memoryview:
        """Return all bytes of an index [TIER-12].

        Raises
        ------
        RemoteResourceNotFoundError
            There is none; that is normal for a transaction index.
        RemoteStorageError
            The store cannot be read.
        """
        name = stored_name(metadata, INDEXES[index_type])
        return self._store.get_whole(folder_name(metadata), name)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete all files of a segment, first the one that makes it whole [TIER-13] [DUR-142].

        Raises
        ------
        RemoteStorageError
            Some of them may be left; the call can be repeated.
        """
        folder = folder_name(metadata)
        self._store.delete(folder, [stored_name(metadata, WHOLE)])
        others = [LOG, *(suffix for suffix in INDEXES.values() if suffix != WHOLE)]
        self._store.delete(folder, [stored_name(metadata, suffix) for suffix in others])

    def close(self) -> None:
        """Release what it holds; idempotent."""
        self._store.close()
