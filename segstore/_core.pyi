"""The typed surface of the one extension module: the C core, wrapped. Translate, do not think."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import IntEnum
from os import PathLike
from types import TracebackType
from typing import (
    Any,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    final,
    type_check_only,
)

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, disjoint_base

from segstore.errors import SegstoreError
from segstore.record_columns import RecordColumns
from segstore.types import (
    FileTimestampAndOffset,
    LargestTimestamp,
    LogAppendInfo,
    LogOffsetMetadata,
    OffsetPosition,
    TimestampOffset,
)

BatchHeaders: TypeAlias = NDArray[np.void]
"""One row a batch: csrc/record/record_batch.h ``sgs_batch_header``, same names, 80 bytes."""

def batch_header_dtype() -> np.dtype[np.void]:
    """The dtype of `BatchHeaders`; imports NumPy, as all that makes such an array."""

class BatchHeader(NamedTuple):
    """One row of `BatchHeaders`."""

    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    size_bytes: int
    partition_leader_epoch: int
    base_sequence: int
    records_count: int
    crc: int
    attributes: int
    producer_epoch: int
    magic: int

@final
class BatchTable:
    """Batch headers in the order of a file; a NumPy array of them is made when it is asked for.

    Parameters
    ----------
    array : BatchHeaders
        Borrowed: what becomes of it becomes of the table.
    """

    def __new__(cls, array: BatchHeaders) -> Self: ...
    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> BatchHeader: ...
    @property
    def array(self) -> BatchHeaders:
        """The rows; the same array each time."""

    @property
    def base_offset(self) -> int:
        """That of the first batch; IndexError without one, as of the next two."""

    @property
    def first_last_offset(self) -> int:
        """The last offset of the first batch."""

    @property
    def last_offset(self) -> int:
        """That of the last batch."""

    @property
    def is_without_gap(self) -> bool:
        """Whether each begins right behind the one before; False with a batch of magic 0 or 1."""

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch that all batches have; None where they differ, and with magic 0 or 1."""

    def first_row(self, offset: int) -> int:
        """Row of the first batch that ends at *offset* or behind it; the length where none does.

        The last offsets ascend.
        """

    def place(self, number: int) -> tuple[int, int, int]:
        """Position, size in bytes and base offset of a batch."""

_SegmentT = TypeVar("_SegmentT", bound=LogSegment)

STATUS_NAMES: tuple[str, ...]
COLUMN_NAMES: tuple[str, ...]
"""key, value, topic, partition, offset, timestamp, timestampType, headers, leaderEpoch."""

def crc32c(data: Buffer, value: int = 0, /) -> int: ...
def crc32c_implementation() -> str: ...
def murmur2(data: Buffer, /) -> int: ...
def process_id() -> int: ...
def wall_clock_ms() -> int: ...
def monotonic_ns() -> int: ...

@disjoint_base
class Environment:
    """Files, locks and clocks [DUR-10]; `Environment()` is this system's.

    What is made from a `Directory` uses the directory's environment and keeps it alive.
    """

    def __new__(cls) -> Self: ...
    @staticmethod
    def with_wall_clock(wall_clock_ms: int) -> Environment:
        """The system's, with a wall clock that stands still until it is set.

        Times at which files were modified stay those of the system.
        """
    @property
    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970; setting the system's own clock is an IllegalStateError."""
    @wall_clock_ms.setter
    def wall_clock_ms(self, value: int) -> None: ...
    def monotonic_ns(self) -> int: ...

# ---- _cython/barriers.pxi ------------------------------------------------------------------------

class BarrierText(NamedTuple):
    """What csrc/io/barrier.h says of one."""

    name: str
    is_promise: bool
    """Without it a crash breaks one; else it saves work."""
    rules: str
    without: str
    """What is lost then."""

BARRIERS: tuple[BarrierText, ...]
"""The list of csrc/io/barrier.h: every sync is one of these [DUR-110]."""

class Barrier(IntEnum):
    """What one sync is for; its place in `BARRIERS`."""

    APPENDED_RECORDS = ...
    APPENDED_NAMES = ...
    ROLL_UNDONE = ...
    REFUSED_RECORDS = ...
    CLOSED_RECORDS = ...
    INDEXES = ...
    TRUNCATION_KEEPS = ...
    TRUNCATION_NAMES = ...
    TRUNCATION_CUT = ...
    EMPTYING_HIGHER = ...
    EMPTYING_FIRST = ...
    EMPTYING_CREATED = ...
    DELETION_NAMES = ...
    RECOVERY_CUT = ...
    RECOVERY_RECORDS = ...
    RECOVERY_NAMES = ...
    RECOVERY_SET_ASIDE = ...
    LEFTOVERS_INCOMPLETE = ...
    LEFTOVERS_GONE = ...
    LEFTOVERS_REPLACED = ...
    LEFTOVERS_DELETED = ...
    REPLACING_RECORDS = ...
    REPLACING_CLEANED = ...
    REPLACING_HIGHER = ...
    REPLACING_COMMIT = ...
    REPLACING_DONE = ...
    TRANSACTION_INDEX = ...
    TRANSACTION_INDEX_NAME = ...
    ROLLED_SNAPSHOT = ...
    ROLLED_SNAPSHOT_NAME = ...
    CLEAN_MARKER_GONE = ...
    CLOSED_NAMES = ...
    NEW_DIRECTORY = ...
    RENAMED_DIRECTORY = ...
    DOOMED_DIRECTORY = ...
    REMOVED_DIRECTORY = ...
    MOVED_RECORDS = ...
    MOVED_NAMES = ...
    METADATA_SNAPSHOT = ...
    METADATA_SNAPSHOT_NAME = ...
    REMOTE_COPY = ...
    REMOTE_COPY_NAMES = ...
    REMOTE_DELETION = ...
    SALVAGED_RECORDS = ...
    STAGED_RECORDS = ...
    STAGED_NAMES = ...

class FileBarrier(IntEnum):
    """What the two syncs of a small file are for, that of its content and that of its name."""

    QUARANTINE = ...
    REBUILT_TRANSACTION_INDEX = ...
    SNAPSHOT = ...
    CHECKSUM_SIDECAR = ...
    RECOVERY_POINT = ...
    LOG_START = ...
    LEADER_EPOCHS = ...
    LOG_STATE = ...
    SHARED_CHECKPOINT = ...
    NEW_NAME_CHECKPOINT = ...
    TOPICS = ...
    PARTITION_METADATA = ...
    CLEAN_MARKER = ...
    SINK_COMMIT = ...

DISK_CALLS: tuple[str, ...]
"""The calls of an environment that can fail: csrc/io/env.h."""

class DiskEvent(NamedTuple):
    """An effect on a simulated disk, for messages."""

    call: str
    name: str
    to: str
    position: int
    """Of a write; the new size for truncate and allocate_space."""
    bytes_count: int
    barrier: str
    """Of a sync: its name in `BARRIERS`; else empty."""

@final
class SimulatedDisk(Environment):
    """A disk in memory whose power can be cut after any effect, for tests (csrc/io/env_sim.h).

    Its root is ``/``. Both clocks stand still until the wall clock is set.
    """

    def __new__(cls) -> Self: ...
    @property
    def effects(self) -> int:
        """How many calls have changed or synced something."""
    @property
    def is_off(self) -> bool: ...
    def calls(self, call: str | None = None) -> int:
        """How many calls of one kind, or of any, there were, failed ones included."""
    def event(self, number: int) -> DiskEvent:
        """What effect *number*, 1 to `effects`, was."""
    def cut_power_after(self, effects: int | None) -> None:
        """Let every effect beyond so many, and then every call, fail; None = never."""
    def fail(self, call: str | None, nth: int, os_error: int, *, for_ever: bool = False) -> None:
        """Let the *nth* call from now on fail as *os_error* says; ``call=None``: of any kind.

        ``nth=0`` takes it back.
        """
    def watch(self, watcher: Callable[[str, str], None] | None) -> None:
        """Call *watcher* with kind and file before every call that can fail; None = nobody.

        It runs in the thread that makes the call, and may plan that this very call fails.
        """
    def set_room(self, bytes_count: int | None) -> None:
        """Let writes make files so many bytes longer in all, then fail with what fits written.

        What is cut off gives nothing back; None = no limit.
        """
    def crash_image(
        self,
        effects: int | None = None,
        *,
        fate: str = "seed",
        seed: int = 0,
        ignored: Sequence[int] = (),
    ) -> SimulatedDisk:
        """Return the disk that the next process finds after a crash behind so many effects.

        What was synced is there. *fate* of the rest: ``lost``, ``kept``, ``seed`` (each block, size
        and name by itself), or ``killed``: the process died and the power stayed, so all is there
        and still not synced. *ignored*: numbers of syncs that did nothing [DUR-110].
        """

# ---- _cython/varints.pxi -------------------------------------------------------------------------

def read_uvarint(data: Buffer) -> tuple[int, int]:
    """(value, bytes read) of the number that *data* begins with [format.md 2.1].

    InvalidRecordError where the data ends inside it, IllegalArgumentError where it is too long.
    """

def read_varint(data: Buffer) -> tuple[int, int]: ...
def read_varlong(data: Buffer) -> tuple[int, int]: ...
def write_uvarint(value: int) -> bytes:
    """The shortest form."""

def write_varint(value: int) -> bytes: ...
def write_varlong(value: int) -> bytes: ...
def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number so many records later; 0 follows 2^31-1 [format.md 4.2]."""

def decrement_sequence(sequence: int, decrement: int) -> int: ...

# ---- _cython/directory.pxi -----------------------------------------------------------------------

class FileInfo(NamedTuple):
    size: int
    modified_ms: int
    changed_ns: int
    is_directory: bool
    is_regular: bool
    inode: int

@final
class Directory:
    """A directory, opened once and held.

    Every name below it goes through its descriptor [DUR-10, DUR-99].
    """

    def __new__(
        cls, path: str, environment: Environment | None = None, *, create: bool = False
    ) -> Directory:
        """``create`` makes the last component when missing (0750), syncs its parent [DUR-11].

        Raises LogNotFoundError, NotALogError (not a directory), LogPermissionError,
        IllegalArgumentError (NUL).
        """
    @property
    def path(self) -> str: ...
    @property
    def environment(self) -> Environment: ...
    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970, by the clock of the environment."""
    def monotonic_ns(self) -> int: ...
    @property
    def created(self) -> bool: ...
    @property
    def sync_failed(self) -> bool:
        """Whether a sync has failed: of names none is tried again, and writing ends [DUR-35]."""

    @property
    def closed(self) -> bool: ...
    @property
    def identity(self) -> tuple[int, int]:
        """(st_dev, st_ino)."""
    def note_renamed(self, path: str) -> None:
        """Messages name *path* from now on; the directory stays the same."""
    def is_network_file_system(self) -> bool: ...
    def names(self, *, ordered: bool = True) -> list[str]:
        """All names, sorted; at most 1,000,000 [DUR-98].

        Names that are no UTF-8 come with surrogate escapes.
        """
    def segment_listing(self) -> SegmentListing:
        """All names once more, sorted into segments, without a Python object a name."""
    def has_segments(self) -> bool:
        """Whether there is the ``.log`` of a segment; looks no further than to the first one."""
    def info(self, name: str) -> FileInfo: ...
    def own_info(self) -> FileInfo:
        """Of the directory itself; a change of a name in it changes ``changed_ns``."""
    def fingerprint(self, name_left_out: str) -> int:
        """One number, 0 or more: it is another one when anything of the other names has changed.

        It covers names, kinds, sizes, inodes, ``changed_ns``, and the bytes of files up to 4 KiB.
        """
    def exists(self, name: str) -> bool: ...
    def read_file(self, name: str, max_bytes: int = 67108864) -> bytes:
        """A small regular file whole; LimitExceededError when it is larger."""
    def read_range(self, name: str, position: int, size: int) -> bytes:
        """Up to *size* bytes of a regular file from *position* on; fewer only at its end."""
    def read_view(self, name: str, position: int, size: int) -> memoryview:
        """What `read_range` reads, as a read-only view.

        The memory of views that are gone is used again: for large pieces, one by one.
        """
    def write_file_atomically(self, name: str, data: Buffer, barrier: FileBarrier) -> None:
        """name.tmp, fsync, rename, fsync of the directory [DUR-21]."""
    def postpone_syncs(self) -> None:
        """Sync nothing until `put_postponed_in_place`: of a new directory that counts for nothing.

        Small files get their names then; `sync_postponed` comes before.
        """
    def sync_postponed(self) -> None:
        """Sync the content of all small files that were written since `postpone_syncs`."""
    def put_postponed_in_place(self) -> None:
        """Give them their names; the next sync of the directory is done, as all that follow."""
    def write_beside(self, name: str, data: Buffer, barrier: FileBarrier) -> None:
        """The first half of `write_file_atomically`: name.tmp, fsync."""
    def put_in_place(self, name: str, barrier: FileBarrier) -> None:
        """The second half of `write_file_atomically`: rename, fsync of the directory."""
    def create_file(self, name: str, data: Buffer, barrier: FileBarrier) -> None:
        """Create (or rewrite in place), fsync, fsync of the directory.

        The clean shutdown marker [DUR-24].
        """
    def make_file(self, name: str) -> None:
        """Make an empty file where there is none; nothing is synced."""
    def set_modified(self, name: str, modified_ms: int) -> None:
        """Set the time of the last modification; a link itself is not followed."""
    def make_read_only(self, name: str) -> None:
        """Take the permission to write a file from everybody.

        A link is not followed, and nothing is synced.
        """

    def rename(self, old: str, new: str) -> None: ...
    def unlink(self, name: str, *, missing_ok: bool = False) -> None: ...
    def sync(self, barrier: Barrier) -> None:
        """Bring the names to stable storage."""
    def make_directory(self, name: str) -> None: ...
    def remove_directory(self, name: str) -> None: ...
    def lock(self, name: str, *, exclusive: bool) -> FileLock:
        """OFD lock on the whole file, created when missing and exclusive.

        LogLockedError at once when held [DUR-65].
        """
    def close(self) -> None: ...

@final
class FileLock:
    @staticmethod
    def open_flock(path: str | PathLike[str], flags: int) -> FileLock:
        """Open *path* for a ``flock`` lock, which the caller takes by `fileno`.

        A file that *flags* make has mode 0600. A forked child closes its copy of the descriptor, as
        those of all file locks. Raises OSError, as `os.open`.
        """
    def fileno(self) -> int:
        """Return the descriptor, which stays the lock's; -1 when it is closed."""
    def release(self) -> None:
        """Unlock, then close; only in the process that locked [DUR-66, DUR-68].

        Twice is harmless.
        """
    @property
    def held(self) -> bool: ...

# ---- _cython/descriptor_pool.pxi -----------------------------------------------------------------

class OpenDescriptors(NamedTuple):
    """Of directories and files of this library, in this process."""

    open_count: int
    """Open now, and may be closed: locks are not counted."""
    evictions: int
    """How often one was closed to make room, since the start."""

def limit_descriptors(limit: int) -> None:
    """Have at most *limit* descriptors open that may be closed; 0 = half of RLIMIT_NOFILE."""

def open_descriptors() -> OpenDescriptors: ...

# ---- _cython/data_file.pxi -----------------------------------------------------------------------

@final
class DataFile:
    """A regular file of a directory, open for changes; a context manager.

    Nothing is on stable storage before `sync`.
    """

    def __new__(cls, directory: Directory, name: str, *, create: bool = False) -> DataFile:
        """``create``: make it, empty, when it is missing; the directory is not synced."""
    @property
    def size(self) -> int: ...
    def write(self, position: int, data: Buffer) -> None:
        """Write all of *data*; after a failure the file is no longer than before [DUR-32]."""
    def copy_from(self, source: Directory, name: str) -> int:
        """Write all bytes of another file from the begin on; return how many.

        After a failure, some of them were written.
        """
    def truncate(self, size: int) -> int:
        """Return how many bytes went; IllegalArgumentError: the file is shorter [SEG-26]."""
    def sync(self, barrier: Barrier, *, ends_writing: bool = False) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object) -> None: ...

# ---- _cython/fetched_files.pxi -------------------------------------------------------------------

@type_check_only
class FetchedFile(Protocol):
    """A file whose bytes are elsewhere."""

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill *target* with the bytes from *position* on; return how many there were."""

@final
class FetchedFiles(Environment):
    """The system's environment, but for the bytes of some files, which come from *files*.

    Their names, of a folder where they have only their sizes, and what has their bytes.
    """

    def __new__(cls, files: dict[str, FetchedFile]) -> Self: ...

# ---- _cython/codecs.pxi --------------------------------------------------------------------------

@final
class CodecTable:
    """The providers of the four codecs, handed down to the core [D12]; immutable."""

    def __new__(
        cls,
        providers: dict[
            int, tuple[str, Callable[[bytes, int], Buffer], Callable[[memoryview, int], Buffer]]
        ],
        max_decompressed_batch_bytes: int = 268435456,
        max_record_bytes: int = 67108864,
    ) -> CodecTable:
        """Codec id -> (name, compress(data, level), decompress(data, limit)).

        decompress returns at most *limit* bytes or raises LimitExceededError; snappy works on one
        raw block. The level is Kafka's numbering; -2147483648 = the codec's default.
        """
    @property
    def names(self) -> dict[int, str]: ...

# ---- _cython/aborted_transactions.pxi ------------------------------------------------------------

@final
class AbortedTransactions:
    """(producer id, first offset, offset of the ABORT marker) of aborted transactions.

    Immutable.
    """

    def __new__(cls, transactions: Iterable[tuple[int, int, int]]) -> AbortedTransactions: ...
    def __len__(self) -> int: ...
    def between(self, fetch_offset: int, upper_bound_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of those that a fetch of that range has to know [TXX-4]."""
    def contain(self, headers: BatchHeaders) -> NDArray[np.bool_]:
        """Which of the batches are data of aborted transactions."""

# ---- _cython/records.pxi -------------------------------------------------------------------------

@final
class Record:
    """One record; attribute names as in kafka-python's ``ConsumerRecord``.

    Comparable, hashable by content, picklable. Made with keywords only, since a key and a value
    look the same: ``Record(key=b"k", value=b"v")``.

    Parameters
    ----------
    key, value : bytes-like or None
        Text is refused: encode it.
    headers : sequence of (str, bytes-like or None)
        In their order; names may repeat.
    timestamp : int, datetime or None
        In ms since 1970; None = when it is appended.
    offset, timestamp_type, leader_epoch, topic, partition
        Of a record that was read; an append does not look at them.
    """

    def __init__(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | datetime | None = None,
        offset: int = -1,
        timestamp_type: int = 0,
        leader_epoch: int = -1,
        topic: str = "",
        partition: int = -1,
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...

class ScanResult(NamedTuple):
    stop: str
    """``complete``, ``incomplete``, ``corrupt``, ``order`` or ``limit``."""
    valid_bytes: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    last_epoch: int
    batches_count: int
    why: SegstoreError | None
    """The error that a caller may raise, for ``corrupt`` and ``order``."""

def scan_headers(data: Buffer, *, check_crc: bool = False) -> tuple[BatchTable, ScanResult]:
    """As ``scan_batches``, without an array."""

def scan_batches(
    data: Buffer,
    *,
    rules: str = "memory",
    check_crc: bool = True,
    max_batch_bytes: int = 2147483647,
    max_batches: int = 4294967295,
    kafka_limits: bool = False,
) -> tuple[BatchHeaders, ScanResult]:
    """Check a whole buffer of batches in one pass [format.md 9.1].

    ``kafka_limits`` accepts what Kafka's scanners accept: see csrc/record/batch_scan.h.
    """

class BatchOptions(NamedTuple):
    base_offset: int = 0
    partition_leader_epoch: int = -1
    codec: int = 0
    level: int = -2147483648
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    delete_horizon_ms: int = -1

@final
class EncodedBatches:
    """Batches built by the core: bytes that it owns and their header table.

    Exports the buffer protocol (writable).
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def headers(self) -> BatchHeaders: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def records_count(self) -> int: ...

def encode_records(
    records: Iterable[object],
    options: BatchOptions,
    codecs: CodecTable,
    default_timestamp: int,
    max_batch_bytes: int,
) -> EncodedBatches:
    """Build batches from pairs, triples and :class:`Record` in one pass.

    A pair is ``(key, value)``, a triple ``(timestamp, key, value)``; keys and values are bytes-like
    or None. A batch ends where the next record would take it above *max_batch_bytes*
    (uncompressed). RecordTypeError names the index and type of what is no record.
    """

def encode_columns(
    data: object,
    options: BatchOptions,
    codecs: CodecTable,
    default_timestamp: int,
    max_batch_bytes: int,
    columns: RecordColumns | None = None,
) -> EncodedBatches:
    """The same from anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``.

    *columns* finds the parts of a record among the columns by name. Its ``value`` is one column:
    who wants several makes one of them before. The error behind an `ArrowStream` comes as itself.
    """

def rebuild_batches(
    data: object, offsets: NDArray[np.int64], headers: BatchHeaders, codecs: CodecTable
) -> EncodedBatches:
    """Build the batches of *headers* again from one Arrow record batch of their records.

    Parameters
    ----------
    data : object
        With ``__arrow_c_array__``; columns as for `encode_columns`.
    offsets : array of int64, shape (rows,)
        The offset of each row.
    headers : array of ``batch_header_dtype()``, shape (batches,)
        As they were; ``records_count`` is how many of the rows a batch takes, ``attributes`` has
        the codec. ``position``, ``size_bytes`` and ``crc`` are not read.

    Raises
    ------
    InvalidRecordError
        Rows and headers do not fit.
    """

def partitions_for_keys(keys: object, partitions_count: int) -> NDArray[np.int32]:
    """Partition of each key, as `partition_for_key` gives it; -1 for null.

    *keys* is a column with ``__arrow_c_stream__`` or ``__arrow_c_array__``, binary or string in any
    layout.
    """

def encode_end_transaction_marker(
    offset: int,
    timestamp: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
) -> bytes: ...
def encode_empty_batch(header: np.void) -> bytes: ...

class Validation(NamedTuple):
    next_offset: int
    max_timestamp: int
    records_count: int
    converted_count: int
    """Records that were written again (Kafka ``numberOfRecordsConverted``)."""
    sizes_may_have_changed: bool
    rebuilt: EncodedBatches | None
    """What takes the place of the batches that were given, when they could not stay as they are."""

class AppendAnalysis(NamedTuple):
    """Of Kafka's ``LogAppendInfo`` what is known before offsets are assigned; -1 = none."""

    valid_bytes: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    last_leader_epoch: int
    source_codec: int

def analyze_append(
    data: Buffer, *, origin: int = 2, leader_epoch: int = -1, max_message_bytes: int = 2147483647
) -> tuple[BatchHeaders, AppendAnalysis]:
    """csrc/record/append_analysis.h.

    Bounds, magic, size, CRC and order of batches, by Kafka's rules for an origin.

    What follows *valid_bytes* is to be cut off. RecordTooLargeError, CorruptRecordError,
    OffsetsOutOfOrderError, InvalidRecordError: what the first bad batch is refused for.
    """

class ValidatorMetrics:
    """What appends were refused for, counted (Kafka ``LogValidator.MetricsRecorder``)."""

    __slots__ = (
        "invalid_checksums",
        "invalid_magic",
        "invalid_offset",
        "invalid_sequence",
        "no_key_compacted_topic",
    )
    invalid_checksums: int
    invalid_magic: int
    invalid_offset: int
    invalid_sequence: int
    no_key_compacted_topic: int
    def __init__(self) -> None: ...

@final
class LogValidator:
    """csrc/record/log_validator.h: the rules of a topic (Kafka ``LogValidator``).

    *origin*: Kafka's ``AppendOrigin``: 0 replication, 1 coordinator, 2 client, 3 raft leader.
    *target_codec* -1 keeps the producer's; *level* counts with another. Any thread may call; memory
    is reused where one at a time does.
    """

    def __new__(
        cls,
        codecs: CodecTable,
        *,
        log_append_time: bool = False,
        keys_required: bool = False,
        timestamp_before_max_ms: int = 9223372036854775807,
        timestamp_after_max_ms: int = 9223372036854775807,
        records_are_trusted: bool = False,
        records_are_checked: bool = False,
        origin: int = 2,
        target_codec: int = -1,
        level: int = -2147483648,
        target_magic: int = 2,
        one_request: bool = False,
        kafka_limits: bool = False,
    ) -> LogValidator: ...
    def validate_and_assign_offsets(
        self,
        data: Buffer,
        headers: BatchHeaders,
        next_offset: int,
        now_ms: int,
        leader_epoch: int,
        metrics: ValidatorMetrics | None = None,
    ) -> Validation:
        """Check batches.

        *data* (writable) and *headers* are changed in place, unless the result is ``rebuilt``.

        Records that are refused are listed in the exception's ``record_errors``.
        """

def validate_and_assign_offsets(
    data: Buffer,
    headers: BatchHeaders,
    codecs: CodecTable,
    *,
    next_offset: int,
    now_ms: int,
    leader_epoch: int,
    metrics: ValidatorMetrics | None = None,
    **options: bool | int,
) -> Validation:
    """`LogValidator` for one call; *options* are its."""

class FilterResult(NamedTuple):
    output: EncodedBatches
    messages_read: int
    messages_retained: int
    bytes_read: int
    """Of the batches that were dealt with: where to go on."""
    bytes_retained: int
    batches_read: int
    max_offset: int
    max_timestamp: int
    shallow_offset_of_max_timestamp: int
    output_grew: bool
    """Whether the last batch took the output above its capacity, and filtering stopped there."""

def filter_records(
    data: Buffer,
    headers: BatchHeaders,
    codecs: CodecTable,
    *,
    decisions: Buffer,
    keep_offsets: Buffer,
    now_ms: int,
    delete_retention_ms: int,
    destination_capacity: int = 9223372036854775807,
    check_crc: bool = True,
) -> FilterResult:
    """csrc/record/record_filter.h.

    *decisions* is a byte per batch, a ``BatchRetention``, plus 4 for a control batch whose
    transaction has no data left; *keep_offsets* are ascending int64.
    """

def iterate_records(
    data: Buffer,
    codecs: CodecTable,
    *,
    start_offset: int = 0,
    end_offset: int = 9223372036854775807,
    check_crc: bool = True,
    control: bool = False,
    topic: str = "",
    partition: int = -1,
    aborted: AbortedTransactions | None = None,
) -> Iterator[Record]:
    """Records of whole batches, lazily; an incomplete batch at the end is left out.

    ``control`` yields control records too.
    """

def decode_tuples(
    data: Buffer,
    codecs: CodecTable,
    *,
    start_offset: int = 0,
    end_offset: int = 9223372036854775807,
    check_crc: bool = True,
    aborted: AbortedTransactions | None = None,
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(offset, timestamp, key, value) of all data records, in one pass."""

def decode_values(
    data: Buffer,
    codecs: CodecTable,
    *,
    start_offset: int = 0,
    end_offset: int = 9223372036854775807,
    check_crc: bool = True,
    aborted: AbortedTransactions | None = None,
) -> list[bytes | None]: ...

# ---- _cython/raw_records.pxi ---------------------------------------------------------------------

class RawRecord(NamedTuple):
    """Everything a dump prints of a record."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    size: int
    """Bytes as Kafka counts them; of a message of magic 0 or 1 with its prefix."""
    crc: int | None = None
    """As stored; only messages of magic 0 and 1 have one."""
    is_valid: bool | None = None
    """Whether that CRC is right."""

def base_offset_of(batch: Buffer, codecs: CodecTable) -> int:
    """First offset of one complete batch, as Kafka's ``baseOffset()``.

    A compressed message set of magic 0 or 1 is opened for it; what is wrong with it is raised.
    """

def iterate_raw_records(
    batch: Buffer, codecs: CodecTable, *, check_crc: bool = False, iteration: str = "streaming"
) -> Iterator[RawRecord]:
    """Records of one complete batch as Kafka's iterators give them, control records included.

    Keys of headers as bytes.

    ``iteration``: ``streaming`` gives records until something is wrong; ``whole`` none of a
    compressed batch in which something is wrong; ``skip_key_value`` leaves keys, values and headers
    of compressed batches out. What Kafka reads is read, whatever DUR-85..DUR-95 say: for tools that
    show files as they are.
    """

# ---- _cython/messages.pxi ------------------------------------------------------------------------

@type_check_only
class MessageVersions(Protocol):
    """A range of versions, both ends included."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def __contains__(self, version: int, /) -> bool: ...

class MessageError(Exception):
    """A message that Kafka cannot read either; the text is Kafka's."""

@final
class MessageField:
    """One field of a message, or of a structure in it; it is equal to itself alone.

    Parameters
    ----------
    name : str
        As in Kafka's JSON.
    kind : str
        The primitive, or the name of the structure; of an array that of an element.
    is_array, is_nullable : bool
        An array of that kind; null may stand for the whole.
    versions : MessageVersions
        Those that have the field.
    tag : int or None
        Of a tagged field.
    default : object
        A tagged field that equals it is left out.
    fields : tuple of MessageField, or None
        Of a structure; None = a primitive.
    """

    def __new__(
        cls,
        name: str,
        kind: str,
        *,
        is_array: bool,
        is_nullable: bool,
        versions: MessageVersions,
        tag: int | None,
        default: object,
        fields: tuple[MessageField, ...] | None,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_array(self) -> bool: ...
    @property
    def is_nullable(self) -> bool: ...
    @property
    def versions(self) -> MessageVersions: ...
    @property
    def tag(self) -> int | None: ...
    @property
    def default(self) -> object: ...
    @property
    def fields(self) -> tuple[MessageField, ...] | None: ...

@final
class MessageSchema:
    """One message: its name, its id among its kind, its versions, those that are flexible."""

    def __new__(
        cls,
        name: str,
        key: int,
        versions: MessageVersions,
        flexible: MessageVersions,
        fields: tuple[MessageField, ...],
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> int: ...
    @property
    def versions(self) -> MessageVersions: ...
    @property
    def flexible(self) -> MessageVersions: ...
    @property
    def fields(self) -> tuple[MessageField, ...]: ...

@final
class MessageReader:
    """Fields out of *data*, one after the other [DUR-87, DUR-88]."""

    def __new__(cls, data: bytes) -> Self: ...
    @property
    def remaining(self) -> int:
        """Bytes behind what was read."""

    def int16(self) -> int:
        """Read a big-endian number.

        Raises
        ------
        MessageError
            Fewer than two bytes remain.
        """

    def message(self, schema: MessageSchema, version: int) -> dict[str, Any]:
        """Read the fields of *schema* in this version, in the order of Kafka's JSON.

        A tagged field that is not there, or has its default, is left out. A version that the schema
        does not have is read by the fields that it does, as in Kafka.

        Raises
        ------
        MessageError
            The bytes are no such message.
        """

# ---- _cython/framed_messages.pxi -----------------------------------------------------------------

class UnknownMessageError(MessageError):
    """The table has no message of this kind."""

    kind: int
    def __init__(self, kind: int) -> None: ...

class UnknownVersionError(MessageError):
    """The table has the message, and not in this version."""

    schema: MessageSchema
    version: int
    def __init__(self, schema: MessageSchema, version: int) -> None: ...

class FramedMessage(NamedTuple):
    """A message, its version and its fields."""

    schema: MessageSchema
    version: int
    fields: dict[str, Any]

@final
class FramedMessages:
    """Reads messages of some schemas with a frame in front [format.md 6.4].

    Source: Kafka ``AbstractApiMessageSerde``.
    """

    def __new__(cls, schemas: Iterable[MessageSchema]) -> Self: ...
    def read(self, data: bytes | None, *, known_versions: bool = False) -> FramedMessage:
        """Read one message, to the last byte.

        Parameters
        ----------
        data : bytes or None
            The value of a record.
        known_versions : bool
            Refuse a version that the schema does not have; Kafka reads it by the fields that it
            knows.

        Raises
        ------
        UnknownMessageError
            There is no message of that kind.
        UnknownVersionError
            There is one, and not in this version.
        MessageError
            Another reason, with Kafka's text.
        """

# ---- _cython/batch_edit.pxi ----------------------------------------------------------------------

def first_batch_size(data: Buffer) -> int | None:
    """Size of the batch that *data* begins with.

    None when fewer than 17 bytes are there, whatever they are.

    CorruptRecordError for a length below 14 or a magic that is none. Kafka
    ``MemoryRecords.firstBatchSize``.
    """

def check_batch(batch: Buffer) -> None:
    """CorruptRecordError unless size and CRC are right [format.md 9.2]; Kafka ``ensureValid``."""

def set_last_offset(batch: Buffer, last_offset: int) -> None:
    """Move the batch at the start of a writable buffer; no CRC changes [format.md 4.6]."""

def set_partition_leader_epoch(batch: Buffer, epoch: int) -> None:
    """Stamp the leader epoch; no CRC changes. IllegalArgumentError at magic 0 and 1."""

def set_max_timestamp(batch: Buffer, timestamp_type: int, timestamp: int) -> None:
    """Set timestamp type (0 or 1) and largest timestamp.

    The CRC follows, unless both are what they were.

    IllegalArgumentError at magic 0, which has no timestamp.
    """

def set_producer_state(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Stamp who wrote a batch of magic 2 and its first sequence number; the CRC follows.

    As Kafka's ``MemoryRecordsBuilder.reopenAndRewriteProducerState``.
    """

# ---- _cython/records_builder.pxi -----------------------------------------------------------------

@final
class RecordsBuilder:
    """Builds one batch of magic 2, or a message set of magic 0 or 1.

    With every field (Kafka ``MemoryRecordsBuilder``).
    """

    def __new__(
        cls,
        codecs: CodecTable,
        *,
        magic: int = 2,
        codec: int = 0,
        level: int = -2147483648,
        timestamp_type: int = 0,
        base_offset: int = 0,
        log_append_time: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        partition_leader_epoch: int = -1,
        delete_horizon_ms: int = -1,
        write_limit: int = 2147483647,
        estimated_compression_ratio: float = 1.0,
    ) -> RecordsBuilder:
        """``timestamp_type``.

        -1 at magic 0, else 0 CreateTime or 1 LogAppendTime, which stamps ``log_append_time``.

        ``write_limit``: bytes after which the batch counts as full; nothing holds to it but who
        asks `has_room_for`. ``estimated_compression_ratio``: compressed to uncompressed size.

        IllegalArgumentError for what Kafka refuses [format.md 10].
        """
    @property
    def magic(self) -> int: ...
    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None: ...
    def has_room_for(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> bool:
        """Whether a record at the next offset stays within the write limit [10].

        The first one always has room. Not compressed: nobody knows what compression will do.
        """
    @property
    def is_full(self) -> bool:
        """Whether no record has room: the limit is reached, or the batch was built or aborted."""
    @property
    def estimated_size(self) -> int:
        """Bytes that `build` would make now: exact without a codec, a guess with one."""
    @property
    def info(self) -> TimestampOffset:
        """The largest timestamp and where readers find it, for a time index; -1 and -1 without.

        Offset of the last record, or of the record itself in plain messages of magic 1 [10].
        """
    def abort(self) -> None:
        """Forget what was appended: `append` and `build` raise IllegalStateError from now on."""
    def build(self) -> bytes:
        """The batch or messages; no bytes when nothing was appended.

        IllegalStateError when built or aborted already.
        """

# ---- _cython/columns.pxi -------------------------------------------------------------------------

@final
class ArrowBatch:
    """A record batch in Arrow's layout.

    ``__arrow_c_array__`` and ``__arrow_c_schema__`` (single use: buffers are moved).
    """

    @property
    def rows_count(self) -> int: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class ColumnDecoder:
    """Batches in, Arrow batches out (csrc/record/columns.h)."""

    def __new__(
        cls,
        codecs: CodecTable,
        columns: Sequence[str] | None = None,
        *,
        microseconds: bool = False,
        null_headers_when_empty: bool = True,
        check_crc: bool = True,
        start_offset: int = 0,
        end_offset: int = 9223372036854775807,
        start_timestamp: int = -9223372036854775808,
        end_timestamp: int = 9223372036854775807,
        topic: str = "",
        partition: int = -1,
        aborted: AbortedTransactions | None = None,
        last_offsets: OffsetMap | None = None,
        notes_last_offsets: bool = False,
    ) -> ColumnDecoder:
        """*last_offsets*, with a secret: a row is the last record of its key, if it has a value.

        *notes_last_offsets*: put the records into the map, and make no rows; it grows as it must.
        """
    def append(self, data: Buffer, max_rows: int = -1, max_bytes: int = -1) -> int:
        """Decode whole batches from *data* until rows or bytes reach a bound.

        Returns the bytes consumed.
        """
    @property
    def rows_count(self) -> int: ...
    @property
    def bytes_count(self) -> int: ...
    def finish(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class ArrowStream:
    """``__arrow_c_stream__`` over an iterator of :class:`ArrowBatch`.

    The consumer pulls, exceptions travel as its errors.
    """

    def __new__(cls, schema: object, batches: Iterator[ArrowBatch]) -> ArrowStream: ...
    @property
    def error(self) -> BaseException | None:
        """The exception behind the error that the consumer saw."""
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

# ---- _cython/segment.pxi -------------------------------------------------------------------------

@final
class SegmentContext:
    """What the segments of one partition share; each of them keeps the directory open."""

    def __new__(
        cls,
        directory: Directory,
        codecs: CodecTable,
        *,
        writable: bool,
        kafka_profile: bool = False,
        heap_indexes: bool = False,
        preallocate: bool = False,
        index_interval_bytes: int = 4096,
        max_index_bytes: int = 10485760,
        segment_bytes: int = 1073741824,
        max_batch_bytes: int = 2147483647,
    ) -> SegmentContext: ...
    @property
    def kafka_profile(self) -> bool: ...
    @property
    def heap_indexes(self) -> bool: ...
    @property
    def most_index_bytes(self) -> int: ...
    @property
    def writable(self) -> bool: ...

@final
class RangeBytes:
    """Bytes of a file, owned; what `Directory.read_view` gives is a view of them."""

    @staticmethod
    def filled(size: int, position: int, fill: Callable[[memoryview], object]) -> RangeBytes:
        """Return bytes that *fill* has written, in memory that is used again.

        Parameters
        ----------
        size : int
            How many.
        position : int
            Where they are in their file: their place in a page of memory is the same, since a
            processor copies faster so.
        fill : callable
            Called with writable memory of shape (size,), format B. It writes all of it, and keeps
            no view.

        Raises
        ------
        IllegalArgumentError
            A negative number.
        ResourceError
            There is no memory.
        """

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class FetchedBytes:
    """Bytes of a fetch, owned.

    Read-only buffer of shape (n,), format B, alive after the log is closed.
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def first_batch_size(self) -> int: ...
    @property
    def first_batch_magic(self) -> int: ...
    @property
    def first_entry_incomplete(self) -> bool: ...

class SegmentSlice(NamedTuple):
    segment: LogSegment
    base_offset: int
    position: int
    size_bytes: int
    first_entry_incomplete: bool
    first_batch_size: int
    first_batch_magic: int

class Recovery(NamedTuple):
    scan: ScanResult
    truncated_bytes: int

class RecoveredBatches(NamedTuple):
    taken: int
    last_indexed_position: int
    error: SegstoreError | None

@final
class SegmentListing:
    """csrc/segment/segment_listing.h: the names in a directory at one time."""

    def __new__(cls, names: Iterable[str] = ()) -> Self:
        """Sort names that do not come from a directory; `Directory.segment_listing` does others."""
    @property
    def others(self) -> list[str]:
        """Names that are not 20 digits, a dot and the extension of a segment file or snapshot."""
    def base_offsets(self, kind: str, *, lacking: str | None = None) -> array[int]:
        """Offsets of the files of a kind, ascending; only those that lack another kind's file.

        Kinds are ``log``, ``index``, ``timeindex``, ``txnindex`` and ``snapshot``.
        """

def open_segments(
    segment_class: type[_SegmentT], context: SegmentContext, base_offsets: array[int]
) -> list[_SegmentT]:
    """Open the segments of these ``.log`` files: their sizes are looked up, nothing is opened.

    What went since it was listed is left out. NotALogError, LimitExceededError (above 2^31 - 1).
    """

def in_order(segments: Iterable[_SegmentT]) -> tuple[tuple[_SegmentT, ...], array[int]]:
    """Sort by base offset, when they are not; the offsets are int64."""

def size_of_segments(segments: Iterable[LogSegment]) -> int:
    """Sum of the sizes of the ``.log`` files in bytes. ClosedError."""

def is_any_replaced(segments: Iterable[LogSegment]) -> bool:
    """Whether one of them has a ``.log`` open that is not the file of its name any more [DUR-77].

    By device and inode; those that have nothing open are not asked, and nothing is opened. Two
    system calls for each. A name that is gone is none of another file: it was deleted, or is being
    cut. ReadIOError.
    """

def is_any_index_damaged(segments: Iterable[LogSegment]) -> bool:
    """Whether `LogSegment.index_damaged` holds for one that has been opened; nothing is opened."""

def close_segments(segments: Iterable[LogSegment]) -> None:
    """Close all of them as `LogSegment.close` does; the first error is raised at the end."""

def close_segments_quietly(segments: Iterable[LogSegment]) -> None:
    """Close all of them and write nothing."""

@disjoint_base
class LogSegment:
    """csrc/segment/log_segment.h; log/segment.py subclasses it with empty ``__slots__``.

    Callers inside are counted: close waits for nobody but lets the last one out close the files.
    """

    def __new__(
        cls,
        context: SegmentContext,
        base_offset: int,
        listed_size: int = -1,
        *,
        create: bool = False,
        suffix: str = "",
    ) -> Self:
        """With *listed_size*, the size that its ``.log`` has just shown, nothing is looked up."""
    def append(self, batches: Buffer, headers: BatchHeaders) -> None:
        """Append batches; *headers* are their rows, whose positions are ignored.

        WriteError/DiskFullError after a roll-back; ``poisoned`` is true when that failed.
        """
    @property
    def poisoned(self) -> bool: ...
    def read(
        self,
        start_offset: int,
        max_size: int,
        max_position: int,
        min_one_message: bool,
        *,
        start_position: int = 0,
    ) -> FetchedBytes | None:
        """None: nothing at or above *start_offset* here. max_position -1 = no bytes are visible.

        CorruptLogError when the batches end below *max_position* and nothing was found [DUR-79].
        With *start_position*, where a batch begins, the index is not asked.
        """
    def slice(
        self,
        start_offset: int,
        max_size: int,
        max_position: int,
        min_one_message: bool,
        *,
        start_position: int = 0,
    ) -> SegmentSlice | None:
        """As read, with the bytes left in the file."""
    def write_to(self, destination: int, position: int, size: int) -> tuple[int, bool]:
        """One step of sending bytes to a descriptor: how many it took, whether it would block.

        (0, False): a signal came. LogTruncatedError: the bytes are gone; SendError.
        """
    def read_into(self, buffer: Buffer, position: int) -> None:
        """Fill a writable buffer; LogTruncatedError when the bytes are gone."""
    def translate_offset(
        self, offset: int, max_position: int = 9223372036854775807, *, start_position: int = 0
    ) -> FetchedBytes | None:
        """As read, without bytes (size_bytes 0)."""
    def read_next_offset(self) -> tuple[int, bool]:
        """(last offset + 1, ends clean)."""
    def find_offset_by_timestamp(
        self, timestamp: int, starting_offset: int, max_position: int = -1
    ) -> FileTimestampAndOffset | None:
        """CorruptLogError when nothing was found and the batches end below *max_position*."""
    def search_for_timestamp(
        self, timestamp: int, start_position: int, starting_offset: int
    ) -> FileTimestampAndOffset | None:
        """From a batch start on, without a look-up; IllegalArgumentError: negative position."""
    def largest_timestamp_after(self, start_position: int) -> FileTimestampAndOffset:
        """And the last offset of its batch; (-1, -1) when no batch has a timestamp."""
    def find_max_timestamp(self) -> FileTimestampAndOffset | None: ...
    def scan_table(
        self,
        *,
        start_position: int = 0,
        end_position: int = -1,
        check_crc: bool = True,
        check_order: bool = False,
        contiguous: bool = False,
        check_epochs: bool = False,
        expected_offset: int = 0,
        next_segment_base_offset: int = 9223372036854775807,
        previous_epoch: int = -1,
        table: bool = True,
        max_batches: int = 4294967295,
    ) -> tuple[BatchTable, ScanResult]:
        """Check batches, with bounded memory. Without *table* the table is empty."""

    def scan(self, **how: Any) -> tuple[BatchHeaders, ScanResult]:
        """The same; an array of the headers."""

    def scan_result(self, **how: Any) -> ScanResult:
        """The same, without the headers."""

    def header_at(self, position: int) -> BatchHeader | None:
        """The header of the batch at a position; None where none is whole, or its CRC is wrong."""

    def scan_transactions(
        self,
        *,
        start_position: int = 0,
        end_position: int = -1,
        expected_offset: int = 0,
        data_from: int = 0,
        max_batches: int = 4294967295,
    ) -> tuple[BatchHeaders, bytes, ScanResult]:
        """Rows of markers and transactional data; a byte each: 0 ABORT, 1 COMMIT, 255 data."""

    def recover(
        self,
        *,
        cut_at: int = 9223372036854775807,
        check_crc: bool = True,
        check_order: bool = True,
        contiguous: bool = False,
        check_epochs: bool = False,
        expected_offset: int = 0,
        next_segment_base_offset: int = 9223372036854775807,
        previous_epoch: int = -1,
        table: bool = True,
    ) -> tuple[BatchHeaders, Recovery]: ...
    def begin_recovery(self) -> None:
        """Kafka's recovery, step by step; `recover` does it in one."""
    def recover_batches(
        self, headers: BatchHeaders, last_indexed_position: int
    ) -> RecoveredBatches: ...
    def end_recovery(self, valid_bytes: int) -> int:
        """Returns the bytes cut."""
    def drop_cache(self) -> None:
        """Ask the system to forget what it has read of the ``.log`` [DUR-60]."""

    def rewrite(self, position: int) -> None: ...
    def truncate_to(self, offset: int) -> int: ...
    def on_become_inactive(self) -> None: ...
    def prepare_for_appends(self) -> None: ...
    def flush(self, barrier: Barrier, *, indexes: bool = False) -> None: ...
    def close(self) -> None: ...
    def close_quietly(self) -> None: ...
    def give_up_indexes(self) -> bool:
        """Unlink both indexes, for the room that they take; False while somebody needs them.

        They come from the records: reads go on without, and close makes them anew [DUR-8].
        """

    @property
    def suffix(self) -> str:
        """Of its files: empty, ``.deleted``, ``.cleaned`` or ``.swap``."""

    def change_suffix(self, suffix: str) -> None: ...
    def delete_files(self) -> None: ...
    @property
    def base_offset(self) -> int: ...
    serial_number: int
    """Which bytes it has: 2^32 are made by this process before a number comes again.

    What is remembered of a segment has this number, and not the segment: a reference would keep
    its files open after they were deleted, and the disk would keep their bytes. A follower gives
    the one that it opens again, because it has grown, the number of the one before.
    """
    @property
    def size_bytes(self) -> int: ...
    @property
    def directory_path(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def unflushed_records(self) -> int: ...
    @property
    def created_ms(self) -> int: ...
    @property
    def index_damaged(self) -> bool: ...
    def indexes_full(self) -> bool: ...
    def first_batch_timestamp(self) -> int: ...
    def max_timestamp(self) -> LargestTimestamp: ...
    def modified_ms(self) -> int: ...
    def offset_index_entries(self) -> list[OffsetPosition]: ...
    def time_index_entries(self) -> list[TimestampOffset]: ...
    def offset_index_lookup(self, target: int) -> OffsetPosition: ...
    def fetch_upper_bound_offset(self, position: int, fetch_size: int) -> int | None: ...
    def time_index_lookup(self, timestamp: int) -> TimestampOffset: ...
    is_cleaned: bool
    """Whether it was made in the place of others: all of it is visible to all.

    Not once it takes appends again.
    """
    def index_bytes(self) -> tuple[int, int]:
        """Bytes of the entries of both indexes, offset and time; 0 where one cannot be loaded."""

# ---- _cython/fetched_records.pxi and _cython/read_lane.pxi ---------------------------------------

@disjoint_base
class FetchedRecords:
    """The bytes of one fetch and where they are from; base of ``FetchDataInfo``.

    What is not asked for is not made: the read lane fills it without ``__init__``.
    """

    _headers: BatchHeaders | None
    def __init__(
        self,
        records: Buffer,
        fetch_offset_metadata: LogOffsetMetadata,
        *,
        start_offset: int,
        first_entry_incomplete: bool,
        end_offset: int,
        aborted: AbortedTransactions | None,
        aborted_below: int,
        codecs: CodecTable,
        topic_partition: tuple[str, int],
        check_crcs: bool,
        file: str | None,
        check_order: Any = None,
    ) -> None: ...
    @property
    def _check_order(self) -> Any: ...
    @property
    def records(self) -> memoryview:
        """The bytes: read-only, shape ``(size_bytes,)``, format ``B``."""
    @property
    def size_bytes(self) -> int:
        """Bytes read, those of a cut batch at the end included."""
    @property
    def fetch_offset_metadata(self) -> LogOffsetMetadata:
        """Base offset and place of the first batch [RD-6]."""
    @property
    def file(self) -> str | None:
        """Path of the ``.log``; None: errors are about the bytes."""
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def first_entry_incomplete(self) -> bool: ...
    @property
    def _aborted(self) -> AbortedTransactions | None: ...
    @property
    def _aborted_below(self) -> int: ...
    @property
    def _codecs(self) -> CodecTable: ...
    @property
    def _topic(self) -> str: ...
    @property
    def _partition(self) -> int: ...
    @property
    def _check_crcs(self) -> bool: ...

@disjoint_base
class SlicedRecords:
    """Bytes of a segment that are still in the file; base of ``FileRecords``."""

    def __init__(
        self,
        segment: LogSegment | None,
        position: int,
        size_bytes: int,
        *,
        log: Any,
        truncations_done: int,
        start_offset: int,
        end_offset: int,
        aborted: AbortedTransactions | None,
        fetch_offset_metadata: LogOffsetMetadata,
        first_entry_incomplete: bool,
    ) -> None: ...
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def fetch_offset_metadata(self) -> LogOffsetMetadata:
        """Base offset and place of the first batch [RD-6]."""
    @property
    def first_entry_incomplete(self) -> bool: ...
    @property
    def _segment(self) -> LogSegment | None: ...
    @property
    def _log(self) -> Any: ...
    @property
    def _aborted(self) -> AbortedTransactions | None: ...
    @property
    def _truncations_done(self) -> int: ...
    @property
    def _start_offset(self) -> int: ...
    @property
    def _end_offset(self) -> int: ...

_FetchT = TypeVar("_FetchT", bound=FetchedRecords)
_SliceT = TypeVar("_SliceT", bound=SlicedRecords)

@final
class ReadLane(Generic[_FetchT, _SliceT]):
    """The short way of a plain read; the methods return None when the layers have to decide.

    It reads one snapshot of a log's segments; where the log begins and ends comes with each call.
    """

    def __new__(
        cls,
        segments: Sequence[LogSegment],
        codecs: CodecTable,
        directory: Directory,
        *,
        fetch_class: type[_FetchT],
        slice_class: type[_SliceT],
        is_kafkas: bool,
    ) -> Self: ...
    def read(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,
        log_start_offset: int,
        published: PublishedEnd,
        topic_partition: tuple[str, int],
        check_order: Any,
    ) -> _FetchT | None:
        """One fetch up to the log end [LOC-6].

        The lane does not keep *check_order*, which refers to the log, and so to this lane.
        """
    def slice(
        self,
        log: object,
        offset: int,
        max_bytes: int,
        min_one_message: bool,
        log_start_offset: int,
        published: PublishedEnd,
        truncations_done: int,
    ) -> _SliceT | None:
        """The same with the bytes left where they are."""
    def learn(self, running_maxima: tuple[int, ...]) -> None:
        """Take over what is known of the segments' largest timestamps [TS-2]."""
    def learn_order(self, base_offset: int) -> None:
        """Take over that nothing is missing before the segment of *base_offset* [DUR-79]."""
    def find_offset_by_timestamp(
        self, timestamp: object, log_start_offset: int, published: PublishedEnd
    ) -> FileTimestampAndOffset | None:
        """The first record at or behind both, of the first segment that reaches the timestamp."""

# ---- _cython/published_end.pxi -------------------------------------------------------------------

@final
class PublishedEnd:
    """Where one log ends, as its threads see it: each field is replaced, and read without a lock.

    A store runs no bytecode, so no signal handler comes between two of them [CON-4].
    """

    def __new__(cls) -> Self: ...
    @property
    def log_end(self) -> LogOffsetMetadata:
        """The next offset, and the segment and byte where it will be; stored after the bytes."""
    @log_end.setter
    def log_end(self, log_end: LogOffsetMetadata) -> None: ...
    @property
    def durable(self) -> LogOffsetMetadata:
        """All below is on stable storage, by syncs that have ended: never ahead of it [DUR-4]."""
    @durable.setter
    def durable(self, durable: LogOffsetMetadata) -> None: ...
    map_end_offset: int
    """What is below it is in the state of the producers."""
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...

# ---- _cython/append_lane.pxi ---------------------------------------------------------------------

class _Poisoned(Protocol):
    def poison(self, error: BaseException) -> None: ...

@final
class AppendLock:
    """One thread at a time changes a log; for ``with`` blocks."""

    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def unless(self, has_to_go: Callable[[], bool]) -> AppendLockAttempt:
        """For a ``with`` block too, which is told whether it has the lock.

        It has not once *has_to_go*, which is asked between the moments of a wait, says that the
        wait would not end.
        """

    def require_another_owner(self) -> None:
        """Raise RuntimeError where this thread has it: whoever waits for it waits for this call."""

    def tell_of_broken_invariants(self, mark: _Poisoned) -> None:
        """Call ``mark.poison`` with an `InternalError` that leaves a ``with`` block [DUR-44].

        Nobody gets in between. *mark* is not kept alive.
        """

    def bar(self) -> None:
        """Keep the append lane out from now on: the log takes no changes any more."""

    def comes_before(self, inner: AppendLock) -> None:
        """Let who holds *inner* have RuntimeError here: it is never taken before this one.

        But by the handler of a signal that came while its thread held it: it is told before it
        changes anything.
        """

    def expect_syncs(self, may_follow: bool) -> None:
        """Say whether the thread of an append through the lane may have to sync behind it."""

    def locked(self) -> bool: ...

@final
class AppendLockAttempt:
    """One ``with`` block, with the lock or without."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...

@final
class ChangeLock:
    """The append lock for ``with`` blocks that change a log.

    *require_writable* is called before the wait for the lock, and again with the lock; it raises
    where the log takes no change.
    """

    def __new__(cls, append_lock: AppendLock, require_writable: Callable[[], None]) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...

@final
class SyncRounds:
    """Rounds of syncs, one at a time: each covers what was written before it began [DUR-15]."""

    def __new__(cls, append_lock: AppendLock) -> Self: ...
    def join(self, sync_round: Callable[[], None]) -> bool:
        """Call *sync_round* when no round runs, and return True.

        Else return False when that one has ended.
        """

    def require_another_leader(self) -> None:
        """Raise RuntimeError when this thread leads the round that runs: it would wait for it.

        Or when it holds a lock that a leader takes.
        """

    def begin(self) -> None:
        """Of the round that runs: what is written from here on is not in it."""

    def wait(self) -> None:
        """Return when no round runs that began before this call."""

@final
class AppendLane:
    """The short way of a plain append, from the list to the answer [D11].

    The methods return None when the layers have to do it. Made of the parts of one log.
    """

    def __new__(
        cls,
        validator_of_sent: LogValidator,
        validator_of_own: LogValidator,
        options: BatchOptions,
        codecs: CodecTable,
        append_lock: AppendLock,
        published: PublishedEnd,
        *,
        local_log: object,
        offsets: object,
        flusher: object,
        failure_mark: object,
        rounds: SyncRounds | None,
        lock_file: str,
        syncs_on_append: bool,
        max_segment_bytes: int,
        max_message_bytes: int,
        max_batch_bytes: int,
    ) -> Self: ...
    @property
    def is_armed(self) -> bool: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def position(self) -> int: ...
    def arm(
        self,
        segment: LogSegment,
        next_offset: int,
        position: int,
        leader_epoch: int,
        max_segment_ms: int,
        log_start_offset: int,
        generation: int,
    ) -> None: ...
    def disarm(self) -> None: ...
    def publish_written(self) -> None:
        """Show what was written and waits for its sync; under the append lock."""

    @property
    def times_armed(self) -> int: ...
    def note_reconciled(self, times_armed: int) -> None:
        """Tell of a round of the layers that has ended: it began when `times_armed` was this.

        Until the lane is armed again, records that it wrote are all that a round has to sync.
        """

    def sync_records(self) -> bool:
        """Lead a round as the layers do [DUR-13, DUR-15].

        False when more may have changed than records that the lane wrote.
        """

    def append(
        self,
        records: object,
        timestamp: object,
        key: object = None,
        value: object = None,
        headers: object = None,
    ) -> LogAppendInfo | EncodedBatches | None:
        """Append a list of records.

        *timestamp* is for those without one; None = now. What was built comes back when only the
        layers can append it. None comes back for all else, such as a frame whose columns are named.
        """

    def append_as_leader(self, data: object, leader_epoch: object) -> LogAppendInfo | None: ...
    def append_as_follower(self, data: object, leader_epoch: object) -> LogAppendInfo | None: ...

# ---- _cython/index_file.pxi, indexes.pxi ---------------------------------------------------------

@disjoint_base
class _Index:
    """An index file by itself (Kafka ``AbstractIndex``) [IDX-1..IDX-18]; a segment has its own.

    Without ``max_size_bytes`` the file must be there and is never changed. With it, the file is
    made when it is missing, and grows to that size: at once with ``kafka_profile``, else in steps.
    Look-ups may run beside one another and beside changes; changes take turns.
    """

    def __new__(
        cls,
        directory: Directory,
        name: str,
        base_offset: int,
        *,
        max_size_bytes: int | None = None,
        kafka_profile: bool = False,
    ) -> Self: ...
    def __len__(self) -> int:
        """Number of entries."""
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def max_entries(self) -> int:
        """How many entries the present, or the configured, size has room for [IDX-2]."""
    @property
    def length(self) -> int:
        """Of the file, in bytes."""
    @property
    def size_in_bytes(self) -> int:
        """Of the entries."""
    def can_append_offset(self, offset: int) -> bool: ...
    def truncate(self) -> None: ...
    def trim_to_valid_size(self) -> None: ...
    def reset(self) -> None: ...
    def flush(self) -> None: ...
    def rename_to(self, name: str) -> None: ...
    def update_parent_directory(self, directory: Directory) -> None: ...
    def close(self) -> None:
        """Trim and close."""
    def close_handler(self) -> None:
        """Close only."""
    def delete_if_exists(self) -> bool: ...

@final
class OffsetIndex(_Index):
    @property
    def is_full(self) -> bool: ...
    @property
    def last_offset(self) -> int: ...
    def entry(self, n: int) -> OffsetPosition: ...
    def entries(self) -> list[OffsetPosition]: ...
    def lookup(self, target: int) -> OffsetPosition: ...
    def fetch_upper_bound_offset(self, position: int, fetch_size: int) -> OffsetPosition | None: ...
    def sanity_check(self) -> None:
        """CorruptIndexError when the file cannot be an index."""
    def truncate_to(self, offset: int) -> None: ...
    def resize(self, size: int) -> bool:
        """Whether the length changed; IllegalArgumentError below what is used [IDX-9].

        With ``kafka_profile`` the file is cut all the same, and what is gone cannot be looked up.
        """
    def append(self, offset: int, position: int) -> None:
        """IllegalArgumentError: full; InvalidOffsetError; IndexOffsetOverflowError [OFX-4]."""

@final
class TimeIndex(_Index):
    @property
    def is_full(self) -> bool: ...
    @property
    def last_entry(self) -> TimestampOffset: ...
    def entry(self, n: int) -> TimestampOffset: ...
    def entries(self) -> list[TimestampOffset]: ...
    def lookup(self, timestamp: int) -> TimestampOffset: ...
    def sanity_check(self) -> None: ...
    def truncate_to(self, offset: int) -> None: ...
    def resize(self, size: int) -> bool: ...
    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """IllegalArgumentError: full; InvalidOffsetError, IllegalStateError: not ascending.

        IndexOffsetOverflowError. Nothing happens when the timestamp is the last one [TMX-5].
        """

# ---- _cython/remote_lane.pxi ---------------------------------------------------------------------

MOST_SKIPPED_REMOTE_BYTES: int
"""Read before the batch that a read of remote storage wants, where the index says no better."""
LEAST_REMOTE_READ_BYTES: int
"""A request for fewer saves nothing."""

@final
class ChangeCounter:
    """How often something has changed; each change, and each new lane, ends those before it."""

    def __new__(cls) -> Self: ...
    @property
    def count(self) -> int: ...
    def add(self) -> None:
        """Note a change."""
    def end(self) -> None:
        """Note that changes are counted here no more."""

@final
class RemoteReadLane(Generic[_FetchT]):
    """The short way of plain reads of remote segments that are files of this machine [D11].

    It holds while the log has these *leader_epochs* and *changes* is as it was. All batches that it
    gives are of the log's epoch there [DUR-141]. For all else it returns None, and changes nothing.
    The files that it read from last are open, until the next change at most: they may be deleted
    then. Each read looks whether its file still has its name.

    Attributes
    ----------
    charge : callable or None
        Gets the bytes of each read before it is returned; False: the layers have to do that read.
    """

    charge: Callable[[int], bool] | None
    def __new__(
        cls,
        leader_epochs: tuple[Any, ...],
        changes: ChangeCounter,
        changes_count: int,
        directory: Directory,
        codecs: CodecTable,
        *,
        fetch_class: type[_FetchT],
        topic_partition: tuple[str, int],
    ) -> Self: ...
    def has_come_to(self, offset: int) -> bool:
        """Whether a read of a file that is still open has ended there."""
    def end(self) -> None:
        """Take no more reads, and close the files. Twice is harmless."""
    def holds(self, leader_epochs: tuple[Any, ...], changes_count: int) -> bool:
        """Whether that is what it goes by, nothing has changed since, and its folder is open."""
    def knows(self, leader_epochs: tuple[Any, ...], offset: int) -> bool:
        """Whether a read at *offset* may be taken, wherever it lies in its segment."""
    def learn(
        self,
        first_offset: int,
        last_offset: int,
        *,
        epoch: int,
        epoch_start_offset: int,
        epoch_end_offset: int,
        base_offset: int,
        end_offset: int,
        size_bytes: int,
        file_name: str,
        object_name: str,
        index: OffsetIndex | None,
        next_offset: int,
        next_position: int,
    ) -> None:
        """Take over which segment has these offsets; what was known of any of them is forgotten.

        Parameters
        ----------
        first_offset, last_offset : int
            Reads from there take this segment.
        epoch, epoch_start_offset, epoch_end_offset : int
            The log has this epoch in ``[start, end)``: each batch has it, and lies there.
        base_offset, end_offset : int
            The first offset and the last one of the segment.
        size_bytes : int
            Of the segment.
        file_name, object_name : str
            Its name in the folder, and the one for errors.
        index : OffsetIndex or None
            Of the segment. Without it, or once it is closed, only reads that go on are taken.
        next_offset, next_position : int
            Where a reader of what was read goes on, and where the batch there begins.
        """
    def lacks_aborted(self, base_offset: int, end_offset: int, truncations_done: int) -> bool:
        """Whether it knows a segment of these offsets, and does not know what `note_aborted` says.

        Parameters
        ----------
        base_offset, end_offset : int
            The first offset and the last one of the segment.
        truncations_done : int
            Of the log: what was noted before another one does not count.
        """
    def note_aborted(
        self, base_offset: int, end_offset: int, *, has_aborted: bool, truncations_done: int
    ) -> None:
        """Take over whether a transaction that reaches into that segment was aborted [TIER-69].

        Only where all are decided: the last stable offset is above *end_offset*. A truncation may
        cut a marker that decides one, so *truncations_done* is that from before the last stable
        offset was asked.
        """
    def read(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,
        log_start_offset: int,
        local_start_offset: int,
        published: PublishedEnd,
        leader_epochs: Sequence[Any],
        visible_end: int | None = None,
        nothing_aborted: AbortedTransactions | None = None,
        truncations_done: int = 0,
    ) -> _FetchT | None:
        """One fetch of a segment that is not here [TIER-65..TIER-69].

        Parameters
        ----------
        visible_end : int or None
            All of the segment lies below it. None: the log end.
        nothing_aborted : AbortedTransactions or None
            Nothing, for a committed read: only a segment is read without aborted transactions.
        truncations_done : int
            Of the log, for a committed read; asked behind *visible_end*.
        """

# ---- _cython/offset_map.pxi ----------------------------------------------------------------------

@final
class OffsetMap:
    """The last offset of each key (Kafka ``SkimpyOffsetMap``) [CLN-45..CLN-52].

    A key is its hash, and an entry 24 bytes, in one allocation; one thread at a time.
    """

    def __new__(cls, memory_bytes: int, secret: Buffer | None = None) -> OffsetMap:
        """``memory_bytes``: 24 to 2^31-1; IllegalArgumentError, ResourceError.

        ``secret``: 16 random bytes, without which nobody can choose keys that collide (SipHash).
        None: Kafka's hash, MD5.
        """
    def put(self, key: Buffer, offset: int) -> None:
        """Remember the offset of a key, also a smaller one than before [CLN-52].

        IllegalArgumentError when no slot is free, even for a key that is there [CLN-48].
        """
    def get(self, key: Buffer) -> int:
        """The offset of a key, -1 when it is not there."""
    def clear(self) -> None:
        """Forget everything; the memory stays."""
    @property
    def size(self) -> int:
        """How many keys there are."""
    @property
    def slots(self) -> int:
        """How many there can be."""
    @property
    def utilization(self) -> float:
        """``size`` / ``slots``."""
    @property
    def latest_offset(self) -> int:
        """The last offset that was put or set; -1 after `clear`."""
    @latest_offset.setter
    def latest_offset(self, offset: int, /) -> None: ...

class CleanerCounts(NamedTuple):
    """What a pass of `SegmentCleaner` has read and written (Kafka ``CleanerStats``) [CLN-122]."""

    map_bytes_read: int
    map_messages_read: int
    bytes_read: int
    messages_read: int
    invalid_messages_read: int
    bytes_written: int
    messages_written: int

@final
class SegmentCleaner:
    """Maps and filters the batches of sealed segments, a piece a call (Kafka ``Cleaner``).

    One thread at a time. Damage raises the error of the batch, with file and position; begin
    another pass then.
    """

    def __new__(cls, offset_map: OffsetMap, codecs: CodecTable) -> SegmentCleaner: ...
    def begin_pass(
        self,
        *,
        first_dirty_offset: int,
        max_entries: int,
        now_ms: int,
        delete_retention_ms: int,
        read_bytes: int,
        check: bool,
        destination_bytes: int = ...,
    ) -> None:
        """Clear the map and forget the last pass.

        ``max_entries``: of the map, which is full then. ``read_bytes``: of a piece, about.
        ``check``: compare the CRC of each batch and the order of offsets [DUR-125].
        """
    def begin_copy(self) -> None:
        """The map is built: transactions are told again from the first segment on [CLN-98]."""
    def add_aborted(self, transactions: Iterable[tuple[int, int, int, int]]) -> None:
        """Announce aborted transactions of what comes, as in a transaction index; twice is fine."""
    def begin_group(
        self, last_records: Iterable[tuple[int, int, int]], kept_last_offset: int
    ) -> None:
        """Say which batches stay even when they are empty [CLN-82, CLN-83].

        ``last_records``: producer id, last data offset or -1, epoch, of each active producer.
        ``kept_last_offset``: a batch with this last offset; -1 = none.
        """
    def begin_source(
        self,
        segment: LogSegment,
        *,
        position: int = 0,
        next_base_offset: int = ...,
        retain_legacy_deletes: bool = False,
    ) -> None:
        """Go on with another segment, from the batch at *position* on.

        No batch may reach *next_base_offset*. ``retain_legacy_deletes``: tombstones of magic 0 and
        1 stay [CLN-74].
        """
    @property
    def is_done(self) -> bool:
        """Whether all of the source was dealt with."""
    def map_piece(self, source: LogSegment) -> bool:
        """Put the keys of the next piece into the map; returns whether it is full [CLN-57]."""
    def copy_piece(self, source: LogSegment, destination: LogSegment) -> int | None:
        """Append what is kept of the next piece to *destination* [CLN-80..CLN-97].

        Returns None; or the base offset of the first batch that *destination* cannot take: call
        again with another one.
        """
    def take_aborted(self) -> list[tuple[int, int, int, int]]:
        """The entries for the transaction index of what was copied since the last call [CLN-97]."""
    @property
    def counts(self) -> CleanerCounts:
        """What the pass has read and written so far."""
