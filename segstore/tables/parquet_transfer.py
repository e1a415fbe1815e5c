"""Logs to Parquet files and back: one partition, a topic, a folder of files."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Directory
from segstore.arguments import isolation_of
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogNotFoundError,
    OffsetOutOfRangeError,
)
from segstore.log.files.partition_directory import directory_name, is_partition_directory_name
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.partition_path import absolute_path, refuse_partition_directory
from segstore.log.lone_files import NO_TOPIC
from segstore.log.lone_segment import LoneSegment, open_to_read
from segstore.log.unified_log import Log
from segstore.notebook import text_as_html
from segstore.number_limits import MAX_LONG
from segstore.tables.offset_ranges import OffsetRange
from segstore.tables.parquet_files import (
    COLUMNS,
    MOST_NAMED,
    ExportedFile,
    check_is_whole,
    exported_files,
    file_name_of,
    isolation_in_files,
    origin_of,
    require_pyarrow,
    what_is_missing,
)
from segstore.tables.parquet_reader import ParquetReader
from segstore.tables.parquet_writer import checked_compression
from segstore.tables.partition_export import ExportReport, export_range, make_folder
from segstore.tables.partition_import import (
    PartitionImport,
    checked_codec,
    checked_files,
    import_partition,
)
from segstore.tables.unfinished_imports import MarkedLogs, begins_with_import
from segstore.tables.whole_file import new_run, remove_parts
from segstore.types import Isolation

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Mapping
    from typing import TypedDict

    from segstore.log.scan import LogScan
    from segstore.types import Codec, IsolationName

    PathLike = str | os.PathLike[str]
    Progress = Callable[[str, int, int], None]

    class ExportOptions(TypedDict, total=False):
        """What `export_logs` takes of a user; `LogManager.export_parquet` describes it."""

        isolation: Isolation | IsolationName
        compression: str
        verify: bool
        bytes_of_a_file: int | None
        progress: Progress | None


class ImportReport(NamedTuple):
    """What was written to one log.

    Attributes
    ----------
    path : str
        Of the log.
    records : int
        Written by this call; 0 = the log held all of them.
    log_end_offset : int
        Of the log.
    """

    path: str
    records: int
    log_end_offset: int

    def _repr_html_(self) -> str:
        return text_as_html(self)


# ---- export --------------------------------------------------------------------------------------


def export_parquet(  # noqa: PLR0913 - keywords of users
    source: PathLike | Log | LoneSegment,
    target: PathLike,
    *,
    as_: str | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    isolation: Isolation | IsolationName = Isolation.LOG_END,
    compression: str = "zstd",
    verify: bool = False,
    overwrite: bool = False,
    allow_gaps: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write one partition to a Parquet file, from which `import_parquet` restores the log.

    A row is a record, with the columns topic, partition, offset, timestamp (ms), timestampType,
    leaderEpoch, key, value and headers. The file also knows the stored batches: producers,
    transaction markers, codecs and gaps. Needs pyarrow.

    Parameters
    ----------
    source : path, Log or LoneSegment
        Directory of a partition, a ``.log`` file, a pattern or an archive as for `open_segment`, or
        what is open already. A path is opened to read: another process may write the log.
    target : path
        The file. It appears when it is whole and durable. In a folder, its name is
        ``<topic>-<partition>-<from>-<until>.parquet``.
    as_ : str or None
        Partition ``<topic>-<partition>`` of the records, where a path does not say it. Without it,
        a file alone has topic ``""`` and partition -1. An import of it needs the name of the log.
    start_offset, end_offset : int or None
        First offset, and one more than the last. Default: all that the log holds now.
    isolation : Isolation or str
        Where visible data ends. ``read_committed`` leaves out aborted transactions; then the file
        has records alone, and no batches.
    compression : str
        Of the file: ``zstd``, ``snappy``, ``gzip``, ``lz4``, ``brotli`` or ``none``.
    verify : bool
        Read the file back and compare each record and each stored batch with the log.
    overwrite : bool
        Replace a file of this name.
    allow_gaps : bool
        Export files alone although their end is damaged, or offsets between two of them are in
        neither. A missing file, or compaction, leaves such gaps. With ``read_committed``, also
        leave out transactions whose end marker may be there. And begin below the first offset.
    progress : callable or None
        ``progress(partition, done, total)``, in offsets.

    Returns
    -------
    ExportReport
        What the file holds, and its size.

    Raises
    ------
    AlreadyExistsError
        The file exists.
    LogNotFoundError, NotALogError
        There is no log at *source*.
    IllegalStateError
        The log begins in remote storage, and no *start_offset* is given.
    CorruptLogError, CorruptRecordError
        The log is damaged, or files alone are without *allow_gaps*: nothing is left of the file.
        `segstore.salvage` copies what can be read.
    OffsetOutOfRangeError, IllegalArgumentError
        As in `Log.scan`; of files alone, an end above theirs, too. With ``read_committed``, a start
        above the last stable offset, or a record with a timestamp before 1970. Or a bound, or the
        log start, lies in a batch that can only be exported whole. Or *as_* with what is open
        already, or files of no known partition with a folder as *target*.
    DiskFullError, WriteError
        The file system refuses the file; nothing is left of it.
    """
    require_pyarrow()
    checked_compression(compression)
    level = isolation_of(isolation)
    file = Path(target)
    is_folder = str(target).endswith(os.sep) or file.is_dir()
    if not is_folder and file.exists() and not overwrite:
        raise _exists(file)
    with _opened(source, as_) as log:
        scan = log.scan(start_offset, end_offset, columns=COLUMNS, isolation=level)
        until = scan.end_offset
        if isinstance(log, Log):
            _check_whole(log, scan, start_offset)
        else:
            if not allow_gaps:
                _check_files(log, scan, end_offset)
            _check_bounds(log, start_offset, end_offset, allow_gaps=allow_gaps)
            until = min(until, log.log_end_offset)  # a scan ends where the bytes of the files end
        offsets = OffsetRange(*log.topic_partition, scan.start_offset, until, _topic_id(log))
        if is_folder:
            if offsets.topic_partition == NO_TOPIC:
                raise IllegalArgumentError(
                    "the files do not say of which partition they are, and a file in a folder has "
                    "its name: pass as_ (--as), such as orders-0, or name the Parquet file",
                    file=str(log.path),
                    found="no folder <topic>-<partition>",
                    expected="a partition",
                )
            make_folder(file)
            file /= file_name_of(offsets)
            if file.exists() and not overwrite:
                raise _exists(file)
        run = new_run()
        try:
            return export_range(
                scan,
                file,
                run,
                offsets,
                isolation_in_files(level),
                planned=[offsets],
                leader_epochs=log.leader_epochs if isinstance(log, Log) else (),
                compression=compression,
                verify=verify,
                progress=_of_range(progress, offsets),
            )
        finally:
            remove_parts(str(file.parent), run)


def export_logs(  # noqa: PLR0913 - keywords of users
    topic: str,
    logs: Mapping[int, Log],
    folder: PathLike,
    *,
    isolation: Isolation | IsolationName = Isolation.LOG_END,
    compression: str = "zstd",
    verify: bool = False,
    bytes_of_a_file: int | None = None,
    progress: Progress | None = None,
) -> list[ExportReport]:
    """Write what the files of *folder* do not hold; `LogManager.export_parquet` describes it."""
    require_pyarrow()
    checked_compression(compression)
    level = isolation_of(isolation)
    word = isolation_in_files(level)
    target = Path(folder)
    make_folder(target)
    there = [one for one in exported_files(str(target)) if one.offsets.topic == topic]
    planned = {number: _whole_range(topic, number, log, level) for number, log in logs.items()}
    run = new_run()
    reports = []
    try:
        for number, log in logs.items():
            wanted = _whole_range(topic, number, log, level)  # meanwhile, it may begin later
            planned[number] = replace(planned[number], from_offset=wanted.from_offset)
            files = [one for one in there if one.offsets.partition == number]
            check_same_export(files, wanted, word, log.log_end_offset)
            for missing in _missing(wanted, files, log, bytes_of_a_file):
                scan = log.scan(
                    missing.from_offset, missing.until_offset, columns=COLUMNS, isolation=level
                )
                report = export_range(
                    scan,
                    target / file_name_of(missing),
                    run,
                    missing,
                    word,
                    planned=[*planned.values()],
                    leader_epochs=log.leader_epochs,
                    compression=compression,
                    verify=verify,
                    progress=_of_range(progress, wanted),
                )
                reports.append(report)
    finally:
        remove_parts(str(target), run)
    return reports


def _whole_range(topic: str, number: int, log: Log, isolation: Isolation) -> OffsetRange:
    """Return what an export of all of *log* holds now."""
    scan = log.scan(columns=COLUMNS, isolation=isolation)
    _check_whole(log, scan, None)
    return OffsetRange(topic, number, scan.start_offset, scan.end_offset, _topic_id(log))


def check_same_export(
    files: list[ExportedFile], wanted: OffsetRange, isolation: str, log_end_offset: int
) -> None:
    """Refuse to add records of *wanted* to the files of another log, topic or isolation.

    Raises
    ------
    IllegalArgumentError
        The files are of another isolation, or have offsets that the log does not have.
    InconsistentTopicIdError
        They are of a topic that was deleted and made again.
    """
    known_id = None if wanted.topic_id is None else topic_id_text(wanted.topic_id)
    for one in files:
        origin = origin_of(one.path)
        if origin.get("isolation") != isolation:
            raise IllegalArgumentError(
                f"the folder holds an export with isolation {origin.get('isolation')}: name "
                "another folder for this one, or export with that isolation (read_uncommitted in "
                "a file is log_end for segstore.export_parquet and the command)",
                file=one.path,
                found=str(origin.get("isolation")),
                expected=isolation,
            )
        if origin.get("topicId") not in {None, known_id}:
            raise InconsistentTopicIdError(
                f"the export holds records of a topic {wanted.topic!r} that was deleted and made "
                "again: export to another folder",
                file=one.path,
                found=f"records of topic id {origin['topicId']}",
                expected=f"topic id {known_id}, as in the log directory",
            )
    if files and files[-1].offsets.until_offset > log_end_offset:
        raise IllegalArgumentError(
            f"the folder holds records of {wanted.topic_partition} up to offset "
            f"{files[-1].offsets.until_offset}: it is an export of another log",
            file=files[-1].path,
            found=str(files[-1].offsets.until_offset),
            expected=f"up to {log_end_offset}",
        )


def _missing(
    wanted: OffsetRange, files: list[ExportedFile], log: Log, bytes_of_a_file: int | None
) -> list[OffsetRange]:
    missing = what_is_missing(wanted, [one.offsets for one in files])
    if not files and not missing:  # a log without records is one too
        missing = [wanted]
    if bytes_of_a_file is None:
        return missing
    parts = []
    for one in missing:
        start = one.from_offset
        for cut in log.scan(start, one.until_offset).cuts(bytes_of_a_file):
            parts.append(replace(one, from_offset=start, until_offset=cut))
            start = cut
        parts.append(replace(one, from_offset=start))
    return parts


def _opened(
    source: PathLike | Log | LoneSegment, as_: str | None
) -> AbstractContextManager[Log | LoneSegment]:
    if not isinstance(source, Log | LoneSegment):
        return open_to_read(source, as_=as_)
    if as_ is not None:
        raise IllegalArgumentError(
            "as_ goes with a path: pass it to the call that opens the log",
            file=source.path,
            found=f"as_={as_!r}",
            expected="a path",
        )
    return nullcontext(source)


def _topic_id(log: Log | LoneSegment) -> uuid.UUID | None:
    return log.topic_id if isinstance(log, Log) else None


def _check_files(files: LoneSegment, scan: LogScan, end_offset: int | None) -> None:
    """Refuse an export of files alone that would look whole, and lacks records."""
    start_offset = scan.start_offset
    end = MAX_LONG if end_offset is None else end_offset
    if files.damaged_end is not None and end > files.log_end_offset:
        raise CorruptLogError(
            f"{files.damaged_end}: pass end_offset to end the export before it, or allow_gaps "
            "(--allow-gaps) to export what can be read",
            file=files.path,
            found=f"readable records up to offset {files.log_end_offset - 1}",
            expected="whole batches up to the end of the last file",
        )
    for first, until in files.holes:
        if first < end and start_offset < until:
            raise CorruptLogError(
                f"offsets {first} to {until - 1} are in none of the files: add the file that is "
                "missing, or pass allow_gaps (--allow-gaps), as where compaction has removed these "
                "records",
                file=files.path,
                found=f"a file from offset {until} on",
                expected=f"one from {first} on",
            )
    for lost in scan.skipped:
        raise CorruptLogError(
            f"{lost}: pass end_offset to end the export before them, or allow_gaps "
            "(--allow-gaps) to leave them out",
            file=files.path,
            found=f"a transaction from offset {lost.first_offset} on without an end marker",
            expected="its COMMIT or ABORT in the files",
        )


def _check_bounds(
    files: LoneSegment, start_offset: int | None, end_offset: int | None, *, allow_gaps: bool
) -> None:
    """Refuse bounds outside of files alone: the name of the file would claim those offsets."""
    first = 0 if allow_gaps else files.log_start_offset
    for name, offset in (("start_offset", start_offset), ("end_offset", end_offset)):
        if offset is not None and not first <= offset <= files.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{name} is not in the files, which have the offsets {files.log_start_offset} to "
                f"{files.log_end_offset}",
                file=files.path,
                found=str(offset),
                expected=f"{first} to {files.log_end_offset}",
            )


def _check_whole(log: Log, scan: LogScan, start_offset: int | None) -> None:
    """Refuse an export that would look whole, and lacks records."""
    if log.report.damage is not None and scan.end_offset >= log.log_end_offset:
        raise CorruptLogError(
            f"{log.report.damage_in(log.path)}. `segstore salvage` copies what can be read; "
            "end_offset ends an export before the damage",
            file=str(log.path),
            found=f"an end at offset {log.log_end_offset}",
            expected="all that was synced",
        )
    is_tiered = log.log_start_offset < log.local_log_start_offset
    if start_offset is None and is_tiered and scan.start_offset > log.log_start_offset:
        raise IllegalStateError(
            f"the records below offset {log.local_log_start_offset} are in remote storage: open the"
            " log with it (remote=, --remote), or pass start_offset to export the local part",
            file=str(log.path),
            found=f"a local part from offset {log.local_log_start_offset} on",
            expected=f"all records from offset {log.log_start_offset} on",
        )


def _exists(file: Path) -> AlreadyExistsError:
    return AlreadyExistsError(
        "the file exists: pass overwrite (--overwrite) to replace it, or another name",
        file=str(file),
        found="a file",
        expected="none",
    )


def _of_range(progress: Progress | None, offsets: OffsetRange) -> Callable[[int], None] | None:
    if progress is None:
        return None
    name, start, total = str(offsets.topic_partition), offsets.from_offset, offsets.size

    def tell(offset: int) -> None:
        progress(name, offset - start, total)

    return tell


UNFINISHED: Final = (
    "the import is not finished: the logs that begin with it cannot be opened before. The same"
    " import goes on where they end"
)
REFUSED: Final = (
    "the import is not finished, and the same files are refused again: import whole files of these"
    " records, which goes on where the logs end, or delete the logs"
)
_OF_FILES: Final = (AlreadyExistsError, CorruptLogError, IllegalArgumentError)
"""Errors that the same files and logs give again."""

# ---- import --------------------------------------------------------------------------------------


def import_parquet(  # noqa: PLR0913 - keywords of users
    source: PathLike,
    target: PathLike,
    *,
    compression: str | None = None,
    allow_gaps: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
) -> list[ImportReport]:
    """Write the records of exported files into logs, each at its offset.

    Batches come back as they were, with producers, leader epochs and transaction markers. From a
    file without batches, as of another program or with ``read_committed``, new ones are made.
    Records that a log has already are compared with the files. So an interrupted import goes on
    where the log ends. Until then no log of a topic that begins with the import can be opened
    (`IllegalStateError`). Needs pyarrow.

    Parameters
    ----------
    source : path
        A file, or a folder with files of `export_parquet`, `LogManager.export_parquet` or the
        Spark job.
    target : path
        For a file, the directory ``<topic>-<partition>`` of the log, which may have another name
        than in the file. Any other directory gets the partitions by their names. Created if
        missing.
    compression : str or None
        Of the batches: ``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``. None = as they were.
    allow_gaps : bool
        Import although the export is not whole: a partition, or offsets of one, are in no file.
        Offsets that were passed over could not be inserted later.
    verify : bool
        Read the logs back, and compare records and batches with the files.
    progress : callable or None
        ``progress(partition, done, total)``, in offsets.

    Returns
    -------
    list of ImportReport
        One for each log.

    Raises
    ------
    LogNotFoundError
        There is no such file, or no export in the folder.
    NotALogError
        The log directory is a file, or the directory of a partition.
    AlreadyExistsError
        A log has other records than the files, or begins at another offset.
    CorruptLogError
        A file is damaged, or a part of the export is missing.
    ReadIOError
        The file system refuses to read a file.
    IllegalArgumentError
        A column is missing or has another type, or the rows are not sorted by offset, as in a file
        of another program. Or the file does not say its partition, and *target* names none. Or a
        folder's *target* has the name of one of its partitions.
    LogLockedError, DiskFullError
        As in an append; the log holds what was written before.
    """
    require_pyarrow()
    codec = checked_codec(compression)
    imports = imports_of(os.fspath(source), os.fspath(target), codec, allow_gaps=allow_gaps)
    new = {name: work for name, work in imports.items() if begins_with_import(work.directory)}
    reports = {}

    def fill(name: str) -> None:
        work = imports[name]._replace(verify=verify)
        done = import_partition(work, _of_log(progress, name, work))
        reports[name] = ImportReport(work.directory, done["records"], done["log_end_offset"])

    for name in [name for name in imports if name not in new]:  # before anything is made
        fill(name)
    for topic in topics_of(new):
        marked = MarkedLogs({work.directory: work.first_offset for work in topic.values()})
        try:
            for name in topic:
                fill(name)
        except BaseException as error:
            if marked.give_up():
                is_refused = isinstance(error, _OF_FILES)
                error.add_note(f"{REFUSED}: {_some(topic)}" if is_refused else UNFINISHED)
            raise
        marked.finish()
    return [reports[name] for name in imports]


def imports_of(
    source: str, target: str, codec: Codec | None, *, allow_gaps: bool
) -> dict[str, PartitionImport]:
    """Return what is imported into which log, by the names of the partitions.

    Raises
    ------
    LogNotFoundError, CorruptLogError, IllegalArgumentError
        There is no export, a file cannot be used, or the export is not whole.
    """
    if not Path(source).is_dir():
        offsets = ParquetReader(source).offsets
        files = (ExportedFile(source, offsets),)
        own_name = Path(target).absolute().name
        is_partition = is_partition_directory_name(own_name)
        is_known = offsets.topic_partition != NO_TOPIC
        if not (is_partition or is_known):
            raise IllegalArgumentError(
                "the file does not say of which partition it is: name the log after its partition",
                file=target,
                found=repr(own_name),
                expected="<topic>-<partition>, such as data/orders-0",
            )
        name = directory_name(offsets.topic_partition) if is_known else own_name
        if not is_partition:
            _check_log_directory(absolute_path(target))
        path = target if is_partition else f"{target}/{name}"
        return {name: PartitionImport(files, path, codec, allow_gaps)}
    by_name: dict[str, list[ExportedFile]] = {}
    found = exported_files(source)
    for file in found:
        by_name.setdefault(directory_name(file.partition), []).append(file)
    if not by_name:
        raise LogNotFoundError(
            "there is no export in this folder",
            file=source,
            found="no file <topic>-<partition>-<from>-<until>.parquet",
            expected="files of an export",
        )
    if not allow_gaps:
        check_is_whole(source, found)
    imports = {
        name: PartitionImport(tuple(own), f"{target}/{name}", codec, allow_gaps)
        for name, own in by_name.items()
    }
    for work in imports.values():
        checked_files(work)
    _check_log_directory(absolute_path(target))
    own_name = Path(target).absolute().name
    if own_name in imports:
        raise IllegalArgumentError(
            f"the folder's partitions get directories of their own, also {own_name}: name the log "
            "directory, which is the one above",
            file=target,
            found=own_name,
            expected="a log directory",
        )
    return imports


def _check_log_directory(path: str) -> None:
    """Refuse a directory for partitions that is a partition itself, or a file."""
    with suppress(LogNotFoundError), closing(Directory(path)) as directory:
        refuse_partition_directory(directory)


def _some(topic: Mapping[str, PartitionImport]) -> str:
    paths = [work.directory for work in topic.values()]
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"{', '.join(paths[:MOST_NAMED])}{more}"


def topics_of(imports: Mapping[str, PartitionImport]) -> list[dict[str, PartitionImport]]:
    """Return the imports of each topic, by the names of the partitions."""
    by_topic: dict[str, dict[str, PartitionImport]] = {}
    for name, work in imports.items():
        by_topic.setdefault(work.files[0].offsets.topic, {})[name] = work
    return [*by_topic.values()]


def _of_log(
    progress: Progress | None, name: str, work: PartitionImport
) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    start = work.files[0].offsets.from_offset

    def tell(end: int, last: int) -> None:
        progress(name, end - start, last - start)

    return tell
