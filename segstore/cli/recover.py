"""``segstore recover``: open for writing, which repairs what a crash left, and tell about it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, UsageError, count_of, say, write_line
from segstore.cli.partition_paths import all_partitions, is_partition
from segstore.errors import CorruptLogError, NotALogError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segstore.cli.check_result import Finding, PartitionCheck
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.sidecar_writing import SidecarsReport
    from segstore.manager.repair_session import RepairSession


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Open a partition for writing, as a program does after a crash: check what was "
        "not yet safe, cut a torn tail (a copy is kept), rebuild indexes, close cleanly; then "
        "check everything. Exit code 1 when bytes were cut or set aside, or something could not "
        "be repaired (with --dry-run: would be). No log is made where none is."
    )
    parser.add_argument("path", metavar="PATH", help="a partition's directory, or a log directory")
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, say what would be done"
    )
    parser.add_argument(
        "--checksum-sidecars",
        action="store_true",
        help="then check every sealed segment and write its checksum sidecar (.segsum), which "
        "verify and scrub compare, where it has none",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Recover, or only check, the partitions one after the other."""
    if arguments.dry_run and arguments.checksum_sidecars:
        msg = "--checksum-sidecars writes files, and --dry-run writes nothing"
        raise UsageError(msg)
    code = 0
    paths = all_partitions(arguments.path)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(quiet=arguments.quiet))
        work = _foretell if arguments.dry_run else _recovery(stack, paths, arguments)
        for path in paths:
            try:
                code = max(code, work(path, progress, as_json=arguments.json))
            except NotALogError as error:
                if len(paths) == 1:
                    raise
                say(f"segstore: {error}")  # one that a broker is deleting; the others are repaired
    return code


def _recovery(
    stack: ExitStack, paths: list[str], arguments: argparse.Namespace
) -> Callable[..., int]:
    """Return what recovers a partition; until *stack* ends, all are as they were found."""
    from segstore.manager.repair_session import repair_session

    session = stack.enter_context(repair_session(paths[0]))
    return partial(_recover, session=session, with_sidecars=arguments.checksum_sidecars)


def _recover(
    path: str, progress: Progress, *, session: RepairSession, as_json: bool, with_sidecars: bool
) -> int:
    """Open for writing, close, check everything: what is still wrong cannot be repaired."""
    from segstore.cli.partition_check import INDEX_FILES, check_partition
    from segstore.log.recovery.forecast import forecast_open

    if not is_partition(path):
        foreseen = forecast_open(path)
        if foreseen.report.created and foreseen.error is None:
            raise NotALogError("there is no .log file to recover, and none is made", file=path)
    try:
        with session.open(path, progress=progress) as log:
            report = log.report
            report.rebuilt += log.rebuild_transaction_indexes()
            sidecars = log.write_checksum_sidecars(progress) if with_sidecars else None
    except CorruptLogError as error:  # the partitions beside it are recovered all the same
        if as_json:
            write_line(json.dumps({"path": path, "error": f"{type(error).__name__}: {error}"}))
        else:
            write_line(f"{path}: cannot be repaired: {error.text_within(path)}")
        return 1
    left = check_partition(path, progress).findings
    damaged = [finding.file for finding in left if finding.file.endswith(INDEX_FILES)]
    if damaged:
        _rebuild_files(path, damaged, session)
        report.rebuilt += damaged
        left = check_partition(path, progress).findings
    _report(path, report, sidecars, left, as_json=as_json)
    lacks_sidecars = sidecars is not None and bool(sidecars.problems)
    return 1 if changed_records(report) or left or lacks_sidecars else 0


def _report(
    path: str,
    report: RecoveryReport,
    sidecars: SidecarsReport | None,
    left: list[Finding],
    *,
    as_json: bool,
) -> None:
    """Print what was done, and what could not be."""
    if as_json:
        not_repaired = [asdict(finding) for finding in left]
        values = {"path": path, **report.to_dict(), "not_repaired": not_repaired}
        if sidecars is not None:
            values["checksum_sidecars"] = sidecars._asdict()
        write_line(json.dumps(values))
    else:
        write_line("\n  ".join([f"{path}:", *str(report).splitlines()]))
        if sidecars is not None:
            write_line("\n  ".join([f"  {_sidecars_text(sidecars)}", *sidecars.problems]))
        if left:
            write_line(f"  not repaired: {count_of(len(left), 'finding')}")
        for finding in left:
            write_line(f"  {finding}")


def _sidecars_text(sidecars: SidecarsReport) -> str:
    """Return what a person reads about the checksum sidecars."""
    return (
        f"checksum sidecars: {sidecars.written} written, {sidecars.fitting} were there and fit, "
        f"{len(sidecars.problems)} refused"
    )


def _rebuild_files(path: str, names: list[str], session: RepairSession) -> None:
    """Build damaged index files anew that an open does not look into: a missing one it does."""
    import segstore._core as _core
    from segstore.log.files.partition_lock import PartitionLock
    from segstore.log.files.partition_path import absolute_path, open_parent_directory

    full_path = absolute_path(path)
    directory = _core.Directory(full_path)
    parent = open_parent_directory(full_path)
    try:
        lock = PartitionLock.acquire(
            directory, parent, parent_is_locked=session.holds_log_directory
        )
        try:
            for name in names:
                directory.unlink(name, missing_ok=True)
            directory.sync(_core.Barrier.LEFTOVERS_GONE)
        finally:
            lock.release()
    finally:
        directory.close()
        if parent is not None:
            parent.close()
    session.open(path).close()


def changed_records(report: RecoveryReport) -> bool:
    """Whether bytes of records were cut or set aside, or may be missing: more than an index."""
    return report.truncated_bytes > 0 or bool(report.set_aside or report.maybe_missing)


def _foretell(path: str, progress: Progress, *, as_json: bool) -> int:
    """Say what an open for writing would do, told by the loader, and what it would leave."""
    from segstore.cli.partition_check import check_partition
    from segstore.cli.verify import check_text
    from segstore.log.files.partition_lock import check_no_writer
    from segstore.log.files.partition_path import absolute_path

    check_no_writer(absolute_path(path))  # what is said of a log that grows is not true for long
    check = check_partition(path, progress)
    forecast = check.forecast
    if forecast.error is not None and not isinstance(forecast.error, CorruptLogError):
        raise forecast.error
    left = [finding for finding in check.findings if not finding.repaired]
    if as_json:
        write_line(json.dumps(check.to_dict()))
    else:
        write_line(check_text(check))
        write_line(_outlook(check, len(left)))
    refused = forecast.error is not None or forecast.report.created
    return 1 if refused or left or changed_records(forecast.report) else 0


def _outlook(check: PartitionCheck, left: int) -> str:
    """Return what a person reads about the recovery that was not done."""
    from segstore.cli.partition_check import INDEX_FILES, TRANSACTION_INDEX_FILES

    forecast = check.forecast
    if forecast.error is not None:
        return f"nothing was written; recover would refuse this log: {forecast.error}"
    if forecast.report.created:
        return "nothing was written; there is no .log file, and recover makes none"
    told = (forecast.report.removed, forecast.report.rebuilt, forecast.report.warnings)
    if not check.findings and forecast.report.clean and not any(told):
        return "there is nothing to repair"
    lines = ["nothing was written; recover would report", *str(forecast.report).splitlines()]
    rebuilt = {*forecast.report.rebuilt}
    kinds = (*INDEX_FILES, TRANSACTION_INDEX_FILES)
    indexes = [found.file for found in check.findings if found.file.endswith(kinds)]
    if more := [name for name in indexes if name not in rebuilt]:
        lines.append(f"rebuilt, because they are damaged: {', '.join(more)}")
    text = "\n  ".join(lines)
    if left:
        text += f"\nand could not repair {count_of(left, 'finding')}"
    return text
