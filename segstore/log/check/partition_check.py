"""The check of a partition: the one judge behind verify, scrub, recover, its dry run, log.verify.

It reads every batch, the records in them, indexes, sidecars and small files, asks the loader what
an open for writing would do, and makes findings of all that. It writes nothing and takes no lock
[DUR-71]. What cannot be read is a finding too, and hides no other.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import segstore._core as _core
from segstore.errors import (
    CorruptLogError,
    IllegalStateError,
    LogNotFoundError,
    LogPermissionError,
    ReadIOError,
    ResourceError,
    SegstoreError,
)
from segstore.log.check.checksum_sidecar_check import all_headers, check_sidecar
from segstore.log.check.gap_check import gap_finding
from segstore.log.check.index_check import index_findings
from segstore.log.check.partition_state import opened_log_start, read_state
from segstore.log.check.reader_view import readable_end_of, wrong_transaction_indexes_of
from segstore.log.check.segment_check import Neighbours, SegmentExamination, scan_all
from segstore.log.check.small_files_check import (
    is_of_restart,
    missing_records_findings,
    small_file_findings,
    snapshot_findings,
)
from segstore.log.check.stable_read import CHANGED, read_while_stable
from segstore.log.check.unreadable_file import (
    UNREADABLE_ERRORS,
    files_that_are_none,
    is_derived,
    unreadable_directory,
    unreadable_file,
)
from segstore.log.check.verify_report import VerifyReport
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    IMPORT_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)
from segstore.log.files.checksum_sidecar import sidecar_base_offset, sidecar_name
from segstore.log.files.kept_aside import is_unreadable_index, kept_indexes, name_aside
from segstore.log.files.partition_directory import (
    INDEX_ENTRY_BYTES,
    file_name,
    has_unique_id,
    is_directory_of,
    parse_file_name,
    segment_files,
)
from segstore.log.files.partition_path import absolute_path, refuse_unfinished_import
from segstore.log.files.recovery_advice import listed
from segstore.log.findings.finding import Action, Finding, FindingCode, Records, facts_of
from segstore.log.local.missing_records import (
    index_text,
    kept_index_text,
    lone_index_bases,
    lone_indexes,
)
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import TRANSACTION_INDEX_ENTRY_BYTES
from segstore.log.recovery.forecast import OpenForecast, forecast_open
from segstore.log.recovery.quarantined_file import quarantined_files
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from segstore._core import BatchHeaders, Directory, Environment
    from segstore.log.check.checksum_sidecar_check import SidecarCheck
    from segstore.log.check.partition_state import PartitionState
    from segstore.log.check.segment_check import CheckedSegment, SegmentScan
    from segstore.log.local.transaction_index_check import WrongIndex
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.types import TopicPartition

    Progress = Callable[[str, int, int], None]
    """Takes the path, bytes checked so far and bytes in all."""

MAY_BE_OF_OTHERS = (
    "another program, as a broker, may have written to the log since: then this is no damage"
)
_SMALL_FILES = (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)


class OpenLog(NamedTuple):
    """What a handle that writes the log knows better than its files."""

    forecast: OpenForecast
    """What its own open has done: nothing is left to be foretold."""
    active_base_offset: int
    end_position: int
    """Where the published batches of the active segment end."""
    wrong_indexes: Callable[[], list[WrongIndex]]
    """Compares the transaction indexes with the batches."""


def check_partition(
    path: str,
    progress: Progress | None = None,
    *,
    scan_segment: SegmentScan = scan_all,
    environment: Environment | None = None,
    as_: TopicPartition | None = None,
) -> VerifyReport:
    """Check the partition at *path*.

    Parameters
    ----------
    path : str
        The partition's directory.
    progress : callable, optional
        Called with the path, bytes checked so far and bytes in all.
    scan_segment : callable
        How the bytes of a segment are read.
    environment : Environment or None
        None = the system's.
    as_ : TopicPartition or None
        Check the directory as that of this partition, whatever its own name is.

    Returns
    -------
    VerifyReport
        Damage, and a directory that cannot be read, are findings.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no such directory.
    """
    try:
        directory = _core.Directory(absolute_path(path), environment)
    except (LogPermissionError, ReadIOError) as error:
        return VerifyReport(path=path, findings=[unreadable_directory(error)])
    try:
        report = check_directory(directory, progress, scan_segment=scan_segment, as_=as_)
    finally:
        directory.close()
    report.path = path
    return report


def check_directory(
    directory: Directory,
    progress: Progress | None = None,
    *,
    scan_segment: SegmentScan = scan_all,
    open_log: OpenLog | None = None,
    as_: TopicPartition | None = None,
) -> VerifyReport:
    """As `check_partition`, of an open directory; *open_log* is the handle that writes it."""
    began = time.monotonic()
    try:
        report, is_stable = read_while_stable(
            directory,
            lambda: _Look(directory, open_log, scan_segment, progress, as_).report(),
            lambda each: each.ok,
            is_of_newest=_is_of_newest,
        )
    except (LogPermissionError, ReadIOError) as error:  # its names
        report, is_stable = VerifyReport(path=directory.path), True
        report.findings.append(unreadable_directory(error))
    if not is_stable:
        report.notes.append(CHANGED)
    report.seconds = time.monotonic() - began
    return report


def _is_of_newest(report: VerifyReport) -> bool:
    """Whether a finding may be of an append: those about sealed segments are not."""
    sealed = {check.base_offset for check in report.segments[:-1]}
    files = (parse_file_name(finding.file) for finding in report.findings)
    return not all(file is not None and file.offset in sealed for file in files)


class _Look:
    """One look at a partition, from its names to the last of its files."""

    def __init__(
        self,
        directory: Directory,
        open_log: OpenLog | None,
        scan_segment: SegmentScan,
        progress: Progress | None,
        as_: TopicPartition | None,
    ) -> None:
        self._directory = directory
        self._as = as_
        self._open_log = open_log
        self._scan_segment = scan_segment
        self._progress = progress
        self._report = VerifyReport(path=directory.path)
        self._findings = self._report.findings
        self._is_believed_by_a_broker = False
        self._written: list[str] = []
        """Transaction indexes that `recover` writes again."""
        self._proofs: list[int] = []
        """Base offsets of segments whose index shows what is missing behind them."""
        self._last_batch_end = 0
        """Behind the good batch that ends the last segment, also where damage is before it."""
        self._names = directory.names()
        self._files = [file for file in segment_files(self._names) if not file.suffix]

    def report(self) -> VerifyReport:
        """Look at everything."""
        directory, report, names = self._directory, self._report, self._names
        known = [name for name in names if self._is_known(name) and not name.endswith(".log")]
        self._findings += files_that_are_none(directory, known)
        report.forecast = forecast = self._forecast()
        state = read_state(directory, forecast, as_=self._as)
        self._add(*state.findings)
        context = _core.SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
        bases = _core.SegmentListing(names).base_offsets("log")
        opened = opened_log_start(forecast)
        start = (state.log_start_offset or 0) if opened is None else opened
        report.log_start_offset = max(start, bases[0] if bases else 0)
        report.recovery_point = (
            report.log_start_offset if state.recovery_point is None else state.recovery_point
        )
        self._is_believed_by_a_broker = (
            f"../{CLEAN_SHUTDOWN_MARKER}" in state.clean_markers
            and not has_unique_id(directory.path)
        )
        self._check_segments(context, bases, state)
        self._set_log_end(bases, start)
        self._check_small_files(state)
        self._add_what_the_open_finds()
        self._check_sidecars(context, bases[:-1], state)
        is_misnamed = self._as is not None and not is_directory_of(directory.path, self._as)
        if is_misnamed:
            report.notes.append(f"`segstore recover` needs the directory's name to be {self._as}")
        if report.is_refused or is_misnamed:
            self._findings[:] = [replace(one, repaired=False) for one in self._findings]
        else:
            report.repair = self._repair()
        self._findings.sort(key=_severity)
        with self._reading("."):
            report.quarantined = quarantined_files(
                directory, context, bases, report.log_start_offset
            )
        leftovers = [file.name for file in segment_files(names) if file.suffix]
        leftovers += [name for name in names if name.endswith(".tmp")]
        report.notes += self._warnings_of_the_open()
        report.notes += [kept_index_text(directory, name) for name in kept_indexes(names)]
        if leftovers:
            report.notes.append(f"{listed(leftovers)}: left by an interrupted operation")
        return report

    @staticmethod
    def _is_known(name: str) -> bool:
        file = parse_file_name(name)
        is_of_segment = file is not None and not file.suffix
        return is_of_segment or name in _SMALL_FILES or sidecar_base_offset(name) is not None

    def _forecast(self) -> OpenForecast:
        if self._open_log is not None:
            return self._open_log.forecast
        directory = self._directory
        return forecast_open(directory.path, environment=directory.environment, as_=self._as)

    def _add(self, *findings: Finding) -> None:
        """Add findings; a file that cannot be read is one finding, whoever meets it."""
        unreadable = {FindingCode.FILE_IS_NO_FILE, FindingCode.FILE_UNREADABLE}
        told = {one.file for one in self._findings if one.code in unreadable}
        self._findings += [
            one for one in findings if one.code not in unreadable or one.file not in told
        ]

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Turn a file that cannot be read into a finding."""
        try:
            yield
        except UNREADABLE_ERRORS as error:
            path = error.file or name
            self._add(unreadable_file(self._directory, os.path.basename(path), error))  # noqa: PTH119

    # ---- segments --------------------------------------------------------------------------------

    def _check_segments(
        self, context: _core.SegmentContext, bases: array[int], state: PartitionState
    ) -> None:
        report, forecast, directory = self._report, self._report.forecast, self._directory
        examination = SegmentExamination(
            directory, context, state.log_state, forecast, self._scan_segment
        )
        sizes = [self._size(file_name(base, "log")) for base in bases]
        size_bytes = sum(size or 0 for size in sizes)
        lone_bases = lone_index_bases(_core.SegmentListing(self._names))
        place = Neighbours(bases[0] if bases else 0, False, -1, None, report.recovery_point)
        for number, (base, size) in enumerate(zip(bases, sizes, strict=True), start=1):
            following = bases[number] if number < len(bases) else None
            place = place._replace(following=following)
            name = file_name(base, "log")
            if size is None:
                place = Neighbours(base, False, -1, None, report.recovery_point)
                continue
            try:
                checked = examination.examine(base, place, self._end_position(base, size))
            except UNREADABLE_ERRORS as error:
                unreadable = unreadable_file(directory, name, error)
                last = None if following is None else following - 1
                values: dict[str, Any] = {"records": Records.NONE}  # they were deleted
                if last is None or last >= report.log_start_offset:
                    values = {"first_offset": base, "last_offset": last, "lost": ((base, last),)}
                self._add(replace(unreadable, **values))
                place = Neighbours(base, False, -1, None, report.recovery_point)
                continue
            report.segments.append(checked.check)
            if following is None or following > report.log_start_offset:  # else an open deletes it
                self._add(*checked.findings)
                self._check_indexes(base, following, checked)
            end = max(checked.check.next_offset, base)
            self._last_batch_end = checked.end_offset or 0
            if following is not None and checked.end_offset is not None:
                start, known = report.log_start_offset, state.log_state
                end = max(checked.end_offset, base)
                with self._reading(MISSING_RECORDS):
                    read = checked.check.size_bytes
                    gap = gap_finding(
                        directory, base, read, end, following, known, start, lone_bases
                    )
                    if gap is not None:
                        self._add(gap)
                        is_proof = gap.file == name and gap.action is Action.RESTORE
                        self._proofs += [base] if is_proof and checked.is_whole else []
            is_contiguous = (
                checked.end_offset is not None
                and state.log_state is not None
                and checked.end_offset >= state.log_state.contiguous_from
            )
            place = Neighbours(end, is_contiguous, checked.last_epoch, None, place.recovery_point)
            if self._progress is not None:
                self._progress(report.path, report.size_bytes, size_bytes)

    def _size(self, name: str) -> int | None:
        """Return the size of a file; None where it cannot be looked at, which is a finding."""
        try:
            return self._directory.info(name).size
        except UNREADABLE_ERRORS as error:
            self._add(unreadable_file(self._directory, name, error))
        return None

    def _end_position(self, base: int, size: int) -> int:
        """Return where a segment that is being written ends, as its writer says; -1 of others."""
        handle = self._open_log
        if handle is None or base != handle.active_base_offset:
            return -1
        return min(size, handle.end_position)

    def _check_indexes(self, base: int, following: int | None, checked: CheckedSegment) -> None:
        """Add what is wrong with both indexes; `recover` builds those of a whole ``.log`` again.

        Of a log that is being written the last entries, and whole files, may be in memory only.
        """
        handle = self._open_log
        if handle is not None and base == handle.active_base_offset:
            return
        is_trimmed = following is not None or self._is_believed_by_a_broker
        is_clean = self._report.forecast.report.clean
        is_end_known = is_clean and self._directory.exists(CLEAN_SHUTDOWN_MARKER)
        found = [
            *index_findings(
                self._directory,
                base,
                checked.headers,
                checked.scan,
                following,
                checked.end_offset,
                is_trimmed=handle is None and is_trimmed,
                is_end_known=is_end_known,
            )
        ]
        if handle is not None:
            found = [one for one in found if one.code is not FindingCode.INDEX_MISSING]
        is_growing = (self._size(file_name(base, "log")) or 0) > checked.check.size_bytes
        if following is None and is_growing:
            return  # entries of batches that came since are among them
        forecast = self._report.forecast
        repaired = checked.is_whole or base in forecast.reindexed or forecast.changes_log(base)
        self._add(*(replace(one, repaired=repaired and one.repaired) for one in found))

    def _set_log_end(self, bases: array[int], start: int) -> None:
        report, forecast = self._report, self._report.forecast
        end = max((check.next_offset for check in report.segments), default=0)
        report.log_end_offset = max(end, bases[-1] if bases else 0)
        opened = opened_log_start(forecast)
        restarts = bases and forecast.report.set_aside and start > report.log_end_offset
        if opened is not None and not forecast.report.created and not restarts:
            report.log_end_offset = forecast.report.log_end_offset
        elif forecast.error is not None and self._open_log is None:
            directory = self._directory
            with suppress(SegstoreError):  # no open to read succeeds: what was seen counts
                report.log_end_offset = readable_end_of(
                    directory.path, directory.environment, self._as
                )

    # ---- the files beside them -------------------------------------------------------------------

    def _check_small_files(self, state: PartitionState) -> None:
        report, directory = self._report, self._directory
        try:
            refuse_unfinished_import(directory)
        except IllegalStateError as error:
            self._add(
                Finding(
                    code=FindingCode.OPEN_REFUSED,
                    file=IMPORT_MARKER,
                    found=error.message,
                    records=Records.MAYBE_MISSING,
                    action=Action.RENAME,
                )
            )
        end = report.log_end_offset
        named_until = self._named_from(max(end, self._last_batch_end))
        with self._reading(RESTART_MARKER):
            self._add(*small_file_findings(directory, state, report.forecast, end, named_until))
        offsets = [file.offset for file in self._files if file.kind == "snapshot"]
        self._add(*snapshot_findings(directory, offsets))
        with self._reading(MISSING_RECORDS):
            self._add(*missing_records_findings(directory))
        self._check_lone_indexes()
        self._check_transaction_indexes()

    def _named_from(self, offset: int) -> int | None:
        """Return where the offsets end that findings name from *offset* on; None = nowhere."""
        named = [
            range_
            for one in self._findings
            if one.file.endswith(".log")
            for range_ in (*one.lost, *one.salvageable)
        ]
        for first, last in sorted(named, key=lambda range_: range_[0]):
            if first <= offset and (last is None or last >= offset):
                if last is None:
                    return None
                offset = last + 1
        return offset

    def _check_lone_indexes(self) -> None:
        """Add that records may be missing where only an index is left.

        It cannot be read, or lists records after the log end. An open for writing renames it; the
        finding stays until the log has the offset, or that file is gone.
        """
        directory, report, names = self._directory, self._report, self._names
        logs = _core.SegmentListing(names).base_offsets("log")
        known = {*logs, *(file.offset for file in segment_files(names) if file.suffix)}
        alone = [file.name for file in self._files if file.offset not in known]
        after_end = self._named_after_end() if logs else set()
        lone = [name for name in alone if name in after_end or is_unreadable_index(directory, name)]
        found = {int(name[:20]): name for name in (*lone, *kept_indexes(names))}
        told = {one.file for one in self._findings}
        is_missing = [one for one in self._findings if one.records is Records.MISSING]
        lost = [range_ for one in is_missing for range_ in one.lost]
        for base, name in found.items():
            is_there = any(one.base_offset <= base < one.next_offset for one in report.segments)
            file = file_name(base, "log")
            is_told = file in told or any(
                first <= base and (last is None or base <= last) for first, last in lost
            )
            if is_there or base in logs or base < report.log_start_offset or is_told:
                continue
            last = min((one - 1 for one in logs if one > base), default=None)
            self._add(
                Finding(
                    code=FindingCode.RECORDS_MAYBE_MISSING,
                    file=file,
                    first_offset=base,
                    last_offset=last,
                    found=f"no such file; {index_text(directory, name)}",
                    records=Records.MAYBE_MISSING,
                    lost=((base, last),),
                    action=Action.RESTORE,
                )
            )

    def _named_after_end(self) -> set[str]:
        """Return the indexes without a ``.log`` that list records after the log end."""
        report, directory = self._report, self._directory
        if report.forecast.report.clean and directory.exists(CLEAN_SHUTDOWN_MARKER):
            return set()  # that says where the log ends
        end = report.log_end_offset
        return {one.name for one in lone_indexes(directory) if one.base_offset >= end}

    def _check_transaction_indexes(self) -> None:
        """Compare the transaction indexes with all batches [DUR-7]."""
        report, directory, handle = self._report, self._directory, self._open_log
        try:
            wrong = (
                wrong_transaction_indexes_of(directory.path, directory.environment, self._as)
                if handle is None
                else handle.wrong_indexes()
            )
        except ResourceError:
            raise
        except SegstoreError as error:
            report.notes.append(
                f"the transaction indexes were not compared with the batches: {error}"
            )
            return
        problems = {}
        for one in wrong:
            if one.error is None:
                problems[one.base_offset] = one.problem, one.content is not None
            else:
                name = file_name(one.base_offset, "txnindex")
                self._add(unreadable_file(directory, name, one.error))
        for file in self._files:
            size = (self._size(file.name) or 0) if file.kind == "txnindex" else 0
            if size % TRANSACTION_INDEX_ENTRY_BYTES and file.offset not in problems:
                text = f"{size} bytes are no multiple of {TRANSACTION_INDEX_ENTRY_BYTES}"
                problems[file.offset] = text, True
        # that of another is made of all batches
        is_whole = not any(one.records is Records.MISSING for one in self._findings)
        for base, (problem, is_known) in sorted(problems.items()):
            is_made = is_known and is_whole
            if is_known:
                self._written.append(file_name(base, "txnindex"))
            repaired = is_made or report.forecast.replaces_transaction_index(base)
            self._add(
                Finding(
                    code=FindingCode.TRANSACTION_INDEX_CORRUPT,
                    file=file_name(base, "txnindex"),
                    found=problem,
                    action=Action.RECOVER if repaired else Action.SALVAGE,
                    repaired=repaired,
                )
            )

    def _add_what_the_open_finds(self) -> None:
        """Add what only an open for writing finds: records that are missing [DUR-54]."""
        forecast, directory = self._report.forecast, self._directory
        error = forecast.error
        if error is None:
            self._add(*self._set_aside())
        elif isinstance(error, UNREADABLE_ERRORS) and error.file is not None:
            name = error.file.removeprefix(f"{directory.path}/")
            if name in directory.names():
                self._add(unreadable_file(directory, name, error))
            else:
                self._report.notes.append(f"cannot be opened for writing: {error}")
        elif not isinstance(error, CorruptLogError):
            self._report.notes.append(f"cannot be opened for writing: {error}")
        elif not is_of_restart(error) and not any(map(_is_of_records, self._findings)):
            self._add(_refusal(error))

    def _warnings_of_the_open(self) -> list[str]:
        """Return what an open for writing warns of, where no finding is about that file."""
        if self._open_log is not None:
            return []  # it has repaired what it warned of
        told = [one.file.removeprefix("../") for one in self._findings]
        # what is found of the restart marker is of other files, which the warning names
        told += [one.found for one in self._findings if one.file == RESTART_MARKER and one.found]
        return [
            warning.replace(f"{self._directory.path}/", "")
            for warning in self._report.forecast.report.warnings
            if not any(name in warning for name in told)
        ]

    def _set_aside(self) -> Iterator[Finding]:
        """Yield what an open takes out of the log though its batches are whole."""
        forecast = self._report.forecast
        told = {one.file for one in self._findings if one.repaired}
        for check in self._report.segments:
            name = file_name(check.base_offset, "log")
            if forecast.sets_aside(check.base_offset) and name not in told and check.batches:
                yield Finding(
                    code=FindingCode.SEGMENT_AFTER_DAMAGE,
                    file=name,
                    position=0,
                    size_bytes=check.size_bytes,
                    first_offset=check.base_offset,
                    last_offset=check.next_offset - 1,
                    found=forecast.report.reason,
                    records=Records.UNREADABLE,
                    salvageable=((check.base_offset, check.next_offset - 1),),
                    action=Action.RECOVER,
                    repaired=True,
                )

    def _repair(self) -> RecoveryReport:
        """Return what `recover` would report: it takes out derived files before it opens the log.

        The open builds them again, and of an index the other one of its segment too. Those of a
        segment without a byte are gone then.
        """
        report = self._report.forecast.report.copy()
        empty = {one.base_offset for one in self._report.segments if one.size_bytes == 0}
        repaired = {one.file for one in self._findings if one.repaired}
        rebuilt = {name for name in repaired if is_derived(name) or name == PARTITION_METADATA}
        files = [parse_file_name(name) for name in rebuilt]
        indexes = [one for one in files if one is not None and one.kind in INDEX_ENTRY_BYTES]
        bases = [*(one.offset for one in indexes), *self._proofs]
        gone = {
            one.name
            for one in self._files
            if one.kind in INDEX_ENTRY_BYTES and one.offset in empty.intersection(bases)
        }.difference(report.rebuilt)
        bases = [base for base in bases if base not in empty]
        rebuilt |= {file_name(base, kind) for base in bases for kind in INDEX_ENTRY_BYTES}
        report.quarantined += [
            name_aside(self._directory, name)
            for name in sorted(rebuilt.union(report.rebuilt))
            if name in self._report.proofs or is_unreadable_index(self._directory, name)
        ]
        report.removed = [name for name in report.removed if name not in rebuilt | gone]
        report.removed += sorted(gone)
        report.rebuilt = sorted((rebuilt - gone).union(report.rebuilt, self._written))
        return report

    # ---- checksum sidecars [DUR-60] --------------------------------------------------------------

    def _check_sidecars(
        self, context: _core.SegmentContext, sealed: array[int], state: PartitionState
    ) -> None:
        """Compare sealed segments with their sidecars, byte by byte.

        Zeros behind the end that an open cuts are no difference: the sidecar is written again.
        """
        checks = {check.base_offset: check for check in self._report.segments}
        for base in sealed:
            cut_at = self._report.forecast.truncations.get(base)
            with self._reading(sidecar_name(base)), suppress(LogNotFoundError):
                found = check_sidecar(
                    self._directory,
                    base,
                    partial(_headers, context, base),
                    is_believed=state.log_state is not None,
                    end_position=cut_at,
                )
                if found is None:
                    continue
                if found.fits and base in checks:
                    checks[base].fits_sidecar = True
                elif found.is_problem:
                    self._add(self._sidecar_finding(base, found))
                elif not found.fits:
                    self._report.notes.append(
                        f"{found.file}: {found.what}; {MAY_BE_OF_OTHERS}, and the next open for"
                        f" writing removes {sidecar_name(base)}"
                    )

    def _sidecar_finding(self, base: int, found: SidecarCheck) -> Finding:
        if found.file == sidecar_name(base):
            return Finding(
                code=FindingCode.SIDECAR_CORRUPT,
                file=found.file,
                position=found.position,
                found=found.what,
                action=Action.RECOVER,
                repaired=True,
            )
        is_told = any(one.file == found.file for one in self._findings)
        return Finding(
            code=FindingCode.SIDECAR_DIFFERS,
            file=found.file,
            position=found.position,
            first_offset=found.offset,
            found=found.what,
            records=Records.NONE if is_told else Records.WRONG,
            action=Action.RESTORE,
        )


def _headers(context: _core.SegmentContext, base: int) -> BatchHeaders:
    segment = Segment(context, base)
    try:
        return all_headers(segment)
    finally:
        segment.close_quietly()


def _refusal(error: CorruptLogError) -> Finding:
    """Return the finding of a log that an open refuses, and no batch shows why."""
    file = parse_file_name(os.path.basename(error.file or ""))  # noqa: PTH119 - a name
    facts = facts_of(error)
    if error.missing is None:
        facts["found"] = error.message
        return Finding(
            code=FindingCode.OPEN_REFUSED,
            file="." if file is None else file.name,
            records=Records.MISSING,
            action=Action.RESTORE,
            **facts,
        )
    first, last = error.missing[0], error.missing[1] - 1
    return Finding(
        code=FindingCode.RECORDS_MISSING,
        file="." if file is None else file.name,
        position=0,
        first_offset=first,
        last_offset=last,
        records=Records.MISSING,
        lost=((first, last),),
        action=Action.RESTORE_SEGMENTS,
        **facts,
    )


def _is_of_records(finding: Finding) -> bool:
    is_of_log = finding.file.endswith(".log") and finding.position is not None
    return is_of_log or finding.records is Records.MISSING


def _severity(finding: Finding) -> int:
    """Lost records come first, then what an open takes out of the log, then derived files."""
    file = parse_file_name(finding.file)
    if file is not None and file.kind == "log":
        return 1 if finding.repaired else 0
    return 3 if file is not None and file.kind in INDEX_ENTRY_BYTES else 2
