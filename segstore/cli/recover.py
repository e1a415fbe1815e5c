"""``segstore recover``: open for writing, which repairs what a crash left, and report it."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.cli.output import Progress, UsageError, count_of, say, write_line
from segstore.cli.partition_paths import add_wait_argument, all_partitions
from segstore.cli.verify import check_text
from segstore.errors import (
    CorruptLogError,
    InconsistentTopicIdError,
    LogLockedError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.findings.finding import Finding
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.sidecar_writing import SidecarsReport
    from segstore.manager.repair_session import RepairSession


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Open a partition for writing, as a program does after a crash: check what is not "
        "proven durable, cut a torn tail and keep a copy, rebuild indexes, close cleanly. Then "
        "check everything. Exit code 1 when bytes were cut or quarantined, or something could not "
        "be repaired (with --dry-run: would be). No log is created where there is none."
    )
    parser.add_argument("path", metavar="PATH", help="a partition's directory, or a log directory")
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, report what would be done"
    )
    parser.add_argument(
        "--checksum-sidecars",
        action="store_true",
        help="then check every sealed segment, and write the checksum sidecar (.segsum) that "
        "verify and scrub compare if it has none",
    )
    add_wait_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Recover, or only check, the partitions one after the other."""
    if arguments.dry_run and arguments.checksum_sidecars:
        msg = "--checksum-sidecars writes files, and --dry-run writes nothing"
        raise UsageError(msg)
    paths = all_partitions(arguments.path)
    with Progress(quiet=arguments.quiet) as progress:
        if arguments.dry_run:
            return _each(paths, lambda path: _foretell(path, paths, progress, arguments))
        return _repair_all(paths, progress, arguments)


def _repair_all(paths: list[str], progress: Progress, arguments: argparse.Namespace) -> int:
    """Repair one partition after the other, then check each again and report it."""
    from segstore.log.files.lock_waiting import waiting_for_lock
    from segstore.log.files.partition_lock import check_no_writer
    from segstore.log.files.partition_path import absolute_path
    from segstore.manager.repair_session import repair_session

    code, repairs, codes = 0, list[Repair](), list[int]()

    def attempt(path: str) -> Repair:
        if not session.holds_log_directory:
            check_no_writer(absolute_path(path))  # before the check of all bytes
        return _repaired(path, session, progress, with_sidecars=arguments.checksum_sidecars)

    def repair(path: str) -> int:
        repairs.append(waiting_for_lock(arguments.wait, lambda: attempt(path)))
        return 0

    def check_and_report() -> None:
        for one in repairs:
            codes.append(_said(one, progress, as_json=arguments.json))

    try:
        try:
            with repair_session(paths[0]) as session:  # until it ends all are as they were found
                code = _each(paths, repair)
        except Exception:  # its end writes the files of the log directory: what was done is said
            check_and_report()
            raise
        check_and_report()
    except KeyboardInterrupt:
        for one in repairs[len(codes) :]:
            _report(one, _expected_left(one), as_json=arguments.json)
        say(_interrupted_text(paths, repairs, len(codes)))
        raise
    return max(code, *codes, 0)


def _each(paths: list[str], do: Callable[[str], int]) -> int:
    """Do it with one partition after the other; return the greatest code."""
    code = 0
    for path in paths:
        try:
            code = max(code, do(path))
        except (LogLockedError, NotALogError) as error:
            if len(paths) == 1:
                raise
            say(f"segstore: {error}")  # the others are repaired
            code = 1
    return code


def _said(repair: Repair, progress: Progress, *, as_json: bool) -> int:
    """Look at what is left, print what was done, and return the exit code."""
    left = _left(repair, progress)
    _report(repair, left, as_json=as_json)
    return _exit_code(repair.found, left, is_refused=repair.error is not None)


class Repair(NamedTuple):
    """What `recover` did with one partition."""

    found: VerifyReport
    report: RecoveryReport | None = None
    error: SegstoreError | None = None
    """Why nothing was done."""
    sidecars: SidecarsReport | None = None


def _repaired(
    path: str, session: RepairSession, progress: Progress, *, with_sidecars: bool
) -> Repair:
    """Check one partition, open it for writing, and close it.

    Raises
    ------
    LogLockedError, NotALogError
        Nothing was done.
    """
    from segstore.log.check.partition_check import check_partition
    from segstore.log.check.unreadable_file import UNREADABLE_ERRORS, is_derived
    from segstore.log.files.checkpoints import PARTITION_METADATA

    found = check_partition(path, progress)
    forecast = found.forecast
    if found.blocking_file is not None:
        return Repair(found, error=SegstoreError(_in_the_way(found.blocking_file)))
    if isinstance(forecast.error, (LogLockedError, NotALogError)):
        raise forecast.error
    if forecast.error is not None:
        return Repair(found, error=forecast.error)
    if forecast.report.created:
        return Repair(found, error=_no_log(path))
    repaired = {one.file for one in found.findings if one.repaired}
    by_open = forecast.report.removed
    gone = [name for name in found.repair.removed if is_derived(name) and name not in by_open]
    cut = {f"{base:020d}." for base in forecast.truncations}
    left_to_open = {  # with the indexes of a segment that it cuts: without them it would refuse
        name
        for name in forecast.report.rebuilt
        if name not in repaired or (name[:21] in cut and name not in found.proofs)
    }
    damaged = [
        name for name in found.repair.rebuilt if is_derived(name) and name not in left_to_open
    ]
    try:
        removed = [name for name in damaged if not name.endswith(".txnindex")]
        kept = _remove(path, removed + gone, found.proofs, session)
        with session.open(path, progress=progress) as log:
            report = log.report
            report.quarantined += kept
            with suppress(CorruptLogError, ReadIOError):  # of a .log: that is a finding
                report.rebuilt += log.rebuild_transaction_indexes()
            with suppress(InconsistentTopicIdError, *UNREADABLE_ERRORS):  # which is a finding
                report.rebuilt += [PARTITION_METADATA] if log.restore_topic_id() else []
            is_lost = any(name[:21] in cut for name in report.removed if name.endswith(".segsum"))
            has_sidecar = is_lost or any(name.endswith(".segsum") for name in damaged)
            sidecars = None
            if with_sidecars or has_sidecar:
                sidecars = log.write_checksum_sidecars(progress)
    except (LogLockedError, NotALogError):
        raise
    except SegstoreError as error:  # the partitions beside it are recovered all the same
        return Repair(found, error=error)
    rebuilt = {*report.rebuilt, *damaged}
    segments = {name[:20] for name in rebuilt if name.endswith("index")}
    rebuilt |= {  # an open that builds one index of a segment writes both
        name for name in found.repair.rebuilt if name[:20] in segments and name.endswith("index")
    }
    report.rebuilt = sorted(rebuilt)
    report.removed += gone
    return Repair(found, report, sidecars=sidecars)


def _left(repair: Repair, progress: Progress) -> list[Finding]:
    """Return what is wrong still: what was not clean is checked again."""
    from segstore.log.check.partition_check import check_partition

    found, report = repair.found, repair.report
    is_as_found = report is not None and found.ok and report.clean and repair.sidecars is None
    if found.is_refused or is_as_found:
        return found.findings
    return check_partition(found.path, progress).findings


def _expected_left(repair: Repair) -> list[Finding]:
    """Return what the check before the repair said would be left."""
    findings = repair.found.findings
    return findings if repair.report is None else [one for one in findings if not one.repaired]


def _in_the_way(name: str) -> str:
    return f"{name} is no regular file: move it out of the directory first"


def _no_log(path: str) -> SegstoreError:
    return NotALogError(
        "there is no .log file to recover, and none is made",
        file=path,
        found="no .log file",
        expected="one at least",
    )


def _remove(path: str, names: list[str], proofs: set[str], session: RepairSession) -> list[str]:
    """Remove derived files that an open does not look into: a missing one it builds [DUR-8].

    What an index proves to be missing is noted before. Returned are the names under which indexes
    are kept that cannot be read, or are *proofs* of a loss behind the last segment [DUR-59].
    """
    import segstore._core as _core
    from segstore.log.files.kept_aside import take_out
    from segstore.log.files.partition_lock import PartitionLock
    from segstore.log.files.partition_path import absolute_path, open_parent_directory
    from segstore.log.local.missing_records import note_missing
    from segstore.log.local.segment import Segment
    from segstore.records.compression import codec_table

    kept: list[str] = []
    if not names:
        return kept
    full_path = absolute_path(path)
    directory = _core.Directory(full_path)
    parent = open_parent_directory(full_path)
    try:
        lock = PartitionLock.acquire(
            directory, parent, parent_is_locked=session.holds_log_directory
        )
        try:
            context = _core.SegmentContext(
                directory, codec_table(), writable=False, heap_indexes=True
            )
            segments = [
                Segment(context, base) for base in directory.segment_listing().base_offsets("log")
            ]
            for segment, following in pairwise(segments):
                if any(name.startswith(f"{segment.base_offset:020d}.") for name in names):
                    note_missing(directory, segment, following)
            kept = take_out(directory, names, proofs)
            directory.sync(_core.Barrier.LEFTOVERS_GONE)
        finally:
            lock.release()
    finally:
        directory.close()
        if parent is not None:
            parent.close()
    return kept


def _exit_code(found: VerifyReport, left: Iterable[Finding], *, is_refused: bool) -> int:
    """Return 1 where records were concerned, or something is left: a dry run answers the same."""
    from segstore.log.findings.finding import FindingCode

    report = found.forecast.report
    changed = report.truncated_bytes > 0 or bool(report.set_aside or report.maybe_missing)
    is_cut = any(
        one.repaired
        and (one.file.endswith(".log") or (one.code is FindingCode.INDEX_CORRUPT and one.lost))
        and one.code is not FindingCode.SEGMENT_OVERFLOWS  # it is split, and loses nothing
        for one in found.findings
    )
    return 1 if is_refused or changed or is_cut or any(left) else 0


# ---- what is printed -----------------------------------------------------------------------------


def _report(repair: Repair, left: list[Finding], *, as_json: bool) -> None:
    """Print what was done, and what could not be."""
    known = {one.identity for one in left}
    repaired = [one for one in repair.found.findings if one.repaired and one.identity not in known]
    if repair.error is not None:
        repaired = []
    if as_json:
        write_line(json.dumps(_values(repair, repaired, left)))
    else:
        write_line("\n  ".join(_lines(repair, repaired, left)))


def _values(repair: Repair, repaired: list[Finding], left: list[Finding]) -> dict[str, Any]:
    from segstore.log.findings.finding_text import finding_values

    path = repair.found.path
    values: dict[str, Any] = {"path": path}
    if repair.report is not None:
        values |= repair.report.to_dict()
    if repair.error is not None:
        values["error"] = f"{type(repair.error).__name__}: {repair.error}"
    values["repaired"] = [finding_values(one, path) for one in repaired]
    values["not_repaired"] = [finding_values(one, path) for one in left]
    if repair.sidecars is not None:
        values["checksum_sidecars"] = repair.sidecars._asdict()
    return values


def _lines(repair: Repair, repaired: list[Finding], left: list[Finding]) -> list[str]:
    from segstore.log.findings.finding_text import finding_line, finding_text

    path = repair.found.path
    lines = [f"{path}:"]
    if repair.error is not None:
        lines = [f"{path}: cannot be repaired: {repair.error.text_within(path)}"]
    if repair.report is not None:
        lines += str(repair.report).splitlines()
    if repair.sidecars is not None:
        lines += [_sidecars_text(repair.sidecars), *repair.sidecars.problems]
    if repaired:
        lines.append(f"repaired: {count_of(len(repaired), 'finding')}")
        lines += map(finding_line, repaired)
    if left:
        lines.append(f"not repaired: {count_of(len(left), 'finding')}")
        lines += [finding_text(one, path) for one in left]
    return lines


def _interrupted_text(paths: list[str], repairs: list[Repair], checked: int) -> str:
    """Return what Ctrl-C left undone, and what to run next."""
    done = [one.found.path for one in repairs if one.report is not None]
    undone = [path for path in paths if path not in done]
    text = f"segstore: Ctrl-C: repaired {len(done)} of {count_of(len(paths), 'partition')}"
    if repairs[checked:]:
        text += ", which were not checked again" if not checked else ", not all checked again"
    if undone:
        text += f"; not repaired: {undone[0]}"
        text += f" and {len(undone) - 1} more" if undone[1:] else ""
    return f"{text}; run `segstore recover` again" if undone else f"{text}; run `segstore verify`"


def _sidecars_text(sidecars: SidecarsReport) -> str:
    """Return what a person reads about the checksum sidecars."""
    return (
        f"checksum sidecars: {sidecars.written} written, {sidecars.fitting} were there and fit, "
        f"{len(sidecars.problems)} refused"
    )


def _foretell(
    path: str, paths: list[str], progress: Progress, arguments: argparse.Namespace
) -> int:
    """Say what the repair of *paths* would do to one, and what it would leave; write nothing."""
    from segstore.log.check.partition_check import check_partition
    from segstore.log.files.partition_lock import check_no_writer
    from segstore.log.files.partition_path import absolute_path
    from segstore.manager.repair_session import repairs_log_directory

    check_no_writer(absolute_path(path))  # what is said of a log that grows is soon untrue
    found = check_partition(path, progress)
    left = [
        one
        for one in found.findings
        if not one.repaired or (one.is_of_log_directory and not repairs_log_directory(paths))
    ]
    write_line(json.dumps(found.to_dict()) if arguments.json else check_text(found))
    if not arguments.json:
        write_line(_outlook(found, len(left)))
    return _exit_code(found, left, is_refused=found.is_refused)


def _outlook(found: VerifyReport, left: int) -> str:
    """Return what a person reads about the recovery that was not done."""
    forecast = found.forecast
    if found.blocking_file is not None:
        return f"nothing was written; recover would refuse: {_in_the_way(found.blocking_file)}"
    if forecast.error is not None:
        return f"nothing was written; recover would refuse this log: {forecast.error}"
    if forecast.report.created:
        return "nothing was written; there is no .log file, and recover makes none"
    report = found.repair
    if found.ok and report.clean and not any((report.removed, report.rebuilt, report.warnings)):
        return "there is nothing to repair"
    lines = ["nothing was written; recover would report", *str(report).splitlines()]
    if repaired := len(found.findings) - left:
        lines.append(f"and repair {count_of(repaired, 'finding')}")
    text = "\n  ".join(lines)
    if left:
        text += f"\nand could not repair {count_of(left, 'finding')}"
    return text
