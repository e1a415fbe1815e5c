"""The sentences about a finding: what it is, what it means for the records, what to do.

All are made here, from the values of the finding; nothing reads them back.
"""

from __future__ import annotations

import errno
import os
import shlex
from typing import TYPE_CHECKING, Any, Final

from segstore.log.findings.finding import Action, FindingCode, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.findings.finding import Finding, OffsetRange

_MOST_RANGES: Final = 5
_MOST_CHARACTERS: Final = 600

WHAT: Final = {
    FindingCode.BATCH_CORRUPT: "these bytes are not the batch that was written",
    FindingCode.BATCH_INCOMPLETE: "the last batch is not whole, as after an interrupted write",
    FindingCode.BATCH_OUT_OF_ORDER: "a batch does not continue the one before it",
    FindingCode.RECORDS_CORRUPT: "the records of this batch cannot be decoded, its CRC is right",
    FindingCode.ZEROS_AT_END: "the file has only zeros from here to its end",
    FindingCode.SEGMENTS_OVERLAP: "two files hold the same offsets",
    FindingCode.SEGMENT_OVERFLOWS: "the segment of an old broker holds offsets that do not fit it",
    FindingCode.SEGMENT_AFTER_DAMAGE: "the segment lies after the end of the log",
    FindingCode.RECORDS_MISSING: "records are missing",
    FindingCode.RECORDS_MAYBE_MISSING: "records may be missing",
    FindingCode.QUARANTINE_LOST: "quarantine files are gone",
    FindingCode.FILE_UNREADABLE: "the file cannot be read",
    FindingCode.FILE_IS_NO_FILE: "this is no regular file",
    FindingCode.DIRECTORY_UNREADABLE: "the directory cannot be read",
    FindingCode.INDEX_MISSING: "the index file is missing",
    FindingCode.INDEX_CORRUPT: "the index is not that of the batches",
    FindingCode.INDEX_PADDED: "there are zeros after the last entry of a sealed segment's index",
    FindingCode.TRANSACTION_INDEX_CORRUPT: "the list of aborted transactions is wrong",
    FindingCode.SNAPSHOT_CORRUPT: "the producer snapshot cannot be used",
    FindingCode.SIDECAR_CORRUPT: "the checksum sidecar cannot be used",
    FindingCode.SIDECAR_DIFFERS: "the segment is not what its checksum sidecar says",
    FindingCode.CHECKPOINT_CORRUPT: "the file cannot be used",
    FindingCode.EPOCHS_WRONG: "the leader epochs are not those of the batches",
    FindingCode.LOG_START_UNKNOWN: "the log start cannot be read from this file",
    FindingCode.LOG_START_ABOVE_END: "the log start lies above the log end",
    FindingCode.RECOVERY_POINT_ABOVE_END: "the recovery point lies above the log end",
    FindingCode.STATE_MISSING: "the file is missing or cannot be used",
    FindingCode.TOPIC_ID_MISSING: "the topic id is missing or cannot be read",
    FindingCode.RESTART_UNFINISHED: "an open was interrupted while it quarantined the whole log",
    FindingCode.RESTART_REFUSED: "the log start changed after an open began to quarantine the log",
    FindingCode.OPEN_REFUSED: "an open for writing refuses the log",
}

_LOOKUPS: Final = "lookups read the batches instead, which is slower"
MEANING: Final = {
    FindingCode.ZEROS_AT_END: "preallocated space, or a write that never reached the disk",
    FindingCode.SEGMENTS_OVERLAP: "two files hold the same records; a read gives each offset once",
    FindingCode.SEGMENT_OVERFLOWS: "its index cannot name these offsets",
    FindingCode.SEGMENT_AFTER_DAMAGE: "what follows damage is not part of the log any more",
    FindingCode.INDEX_MISSING: _LOOKUPS,
    FindingCode.INDEX_CORRUPT: _LOOKUPS,
    FindingCode.INDEX_PADDED: "a broker takes the zeros for entries: zeros of a `.timeindex` may"
    " make it delete the segment as expired",
    FindingCode.TRANSACTION_INDEX_CORRUPT: "committed reads use the batches instead; a broker would"
    " show aborted records",
    FindingCode.SNAPSHOT_CORRUPT: "the producers are read from the batches instead",
    FindingCode.SIDECAR_CORRUPT: "the segment is not compared byte by byte",
    FindingCode.SIDECAR_DIFFERS: "the disk or another program changed bytes after they were"
    " durable",
    FindingCode.CHECKPOINT_CORRUPT: "what it says counts as missing",
    FindingCode.EPOCHS_WRONG: "the history of leaders is wrong",
    FindingCode.LOG_START_UNKNOWN: "deleted records may be read again",
    FindingCode.LOG_START_ABOVE_END: "all records count as deleted",
    FindingCode.RECOVERY_POINT_ABOVE_END: "the log was longer when it was last durable",
    FindingCode.STATE_MISSING: "no other file shows whether records are missing",
    FindingCode.TOPIC_ID_MISSING: "a broker takes a log without topic id for a stray one and"
    " begins an empty partition",
    FindingCode.RESTART_UNFINISHED: "the next open for writing finishes it",
    FindingCode.RESTART_REFUSED: "every open for writing refuses the log until this is solved",
}
"""What a code means by itself; what it means for records comes after that."""

_DONE_BY_RECOVER: Final = {
    FindingCode.ZEROS_AT_END: "cuts them",
    FindingCode.SEGMENT_OVERFLOWS: "splits it",
    FindingCode.SEGMENT_AFTER_DAMAGE: "quarantines it",
    FindingCode.TOPIC_ID_MISSING: "writes it again, with the id of the topic's other partitions",
}
_LOG_STARTS: Final = "../log-start-offset-checkpoint"
_TAILS: Final = {FindingCode.ZEROS_AT_END, FindingCode.BATCH_INCOMPLETE}


def what(finding: Finding) -> str:
    """Say what was found, in one sentence."""
    text = WHAT[finding.code]
    found, expected = _short(finding.found), _short(finding.expected)
    if found and expected:
        text += f": found {found}, expected {expected}"
    elif found or expected:
        text += f": {found or f'expected {expected}'}"
    if finding.os_error is not None and os.strerror(finding.os_error) not in text:
        name = errno.errorcode.get(finding.os_error, str(finding.os_error))
        text += f" ({name}: {os.strerror(finding.os_error)})"
    if finding.size_bytes is not None:
        text += f"; {finding.size_bytes} bytes are concerned"
    return text


def meaning(finding: Finding) -> str:
    """Say what it means, at last for the records."""
    own, records = MEANING.get(finding.code), _records_text(finding)
    return records if own is None else f"{own}; {records}"


def advice(finding: Finding, path: str) -> str:
    """Say what to do about a finding in the partition at *path*, with the command to type."""
    where = shlex.quote(path)
    recovered = os.path.normpath(f"{path}/..") if finding.is_of_log_directory else path
    recover = f"`segstore recover {shlex.quote(recovered)}`"
    salvage = f"`segstore salvage {where} TARGET` copies what can be proven into a new log"
    text = {
        Action.NOTHING: "nothing",
        Action.RECOVER: f"{_saved_first(finding, where)}{recover} {_done_by_recover(finding)}",
        Action.RESTORE: f"restore {finding.file} from a copy; without one {salvage}",
        Action.RESTORE_SEGMENTS: "restore the segment files that hold"
        f" {_offsets_text(finding)} from a copy; without one {salvage}",
        Action.RESTORE_FIRST: f"restore {finding.file} from a copy before the next open for"
        " writing, which goes on without it",
        Action.SALVAGE: salvage,
        Action.MOVE_AWAY: f"move {finding.file} out of the directory, then run {recover}",
        Action.COPY_FROM_DISK: "the disk may be failing: copy the directory to another one;"
        f" {salvage}",
        Action.GRANT_ACCESS: f"repeat the command as a user who may read {finding.file}",
        Action.RENAME: f"do what is said above, then run `segstore verify {where}`",
        Action.WRITE_TOPIC_ID: f"write {finding.file} again:"
        f" `printf 'version: 0\\ntopic_id: ID\\n' > {where}/{finding.file}`,"
        " with the ID that another broker has in this file of the topic,"
        " or `kafka-topics.sh --describe`; never delete it",
        Action.COMPARE: "compare the gaps of the log with another replica, and write down which"
        f" records are missing; then remove {finding.file}, which ends this finding",
        Action.WRITE_LOG_START: f"write the right log start into {finding.file} before the log is"
        " opened for writing",
    }[finding.action]
    if finding.action is Action.RECOVER and finding.file == _LOG_STARTS:
        text = f"restore {finding.file} from a copy, if there is one: it may have a greater log"
        text += f" start; else {recover} writes it again"
    if finding.code is FindingCode.SIDECAR_DIFFERS:
        sidecar = f"{finding.file.removesuffix('.log')}.segsum"
        text += f"; if the .log is right, remove {sidecar}, and `segstore recover {where}"
        text += " --checksum-sidecars` writes it again"
    if finding.action is Action.RECOVER and not finding.repaired:
        text += ", after the findings that stop it are solved"
    if finding.repaired and finding.action is not Action.RECOVER:
        text += f"; {recover} accepts the log as it is"
    return text


def finding_line(finding: Finding) -> str:
    """Return where a finding is and what, in one line."""
    where = [finding.file]
    if finding.position is not None:
        where.append(f"byte {finding.position}")
    if finding.first_offset is not None:
        where.append(f"offset {finding.first_offset}")
    return f"{', '.join(where)}: {what(finding)} [{finding.code.value}]"


def finding_text(finding: Finding, path: str) -> str:
    """Return what a person reads about a finding in the partition at *path*."""
    return (
        f"{finding_line(finding)}"
        f"\n    means: {meaning(finding)}"
        f"\n    to do: {advice(finding, path)}"
    )


def finding_values(finding: Finding, path: str) -> dict[str, Any]:
    """Return the values of a finding and its sentences, for JSON."""
    return {
        **finding.to_dict(),
        "what": what(finding),
        "meaning": meaning(finding),
        "advice": advice(finding, path),
    }


def ranges_text(ranges: Sequence[OffsetRange]) -> str:
    """Name ranges of records: "records 7 to 13, 20 and from 30 on"; of many the first ones."""
    named = [
        f"from {first} on"
        if last is None
        else str(first)
        if first == last
        else f"{first} to {last}"
        for first, last in ranges
    ]
    if len(named) > _MOST_RANGES:
        named = [*named[:_MOST_RANGES], f"{len(named) - _MOST_RANGES} more ranges"]
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{'record' if is_one else 'records'} {listed}"


def _offsets_text(finding: Finding) -> str:
    """Name the offsets that a finding concerns."""
    first, last = finding.first_offset, finding.last_offset
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _saved_first(finding: Finding, where: str) -> str:
    """Say what is to be done before a repair that takes whole batches out of the log."""
    if not finding.salvageable:
        return ""
    return (
        f"first `segstore salvage {where} TARGET`, which copies"
        f" {ranges_text(finding.salvageable)} too, since a repair takes them out of the log; then "
    )


def _done_by_recover(finding: Finding) -> str:
    """Say what `segstore recover` does about a finding."""
    if finding.code in _DONE_BY_RECOVER:
        return _DONE_BY_RECOVER[finding.code]
    if finding.file.endswith(".log"):
        return "ends the log here, and keeps a copy of what it cuts"
    return "repairs this"


def _records_text(finding: Finding) -> str:
    """Say what a finding means for the records."""
    if finding.records is Records.UNREADABLE and finding.salvageable and not finding.lost:
        return f"{ranges_text(finding.salvageable)} can be salvaged, and are not read"
    named = ranges_text(finding.lost) if finding.lost else "records"
    if finding.records is Records.MAYBE_MISSING and finding.code in _TAILS:
        return f"{named} may be lost, even if a producer got an acknowledgement"
    if finding.records is Records.MAYBE_MISSING and finding.code is FindingCode.OPEN_REFUSED:
        return "the log is not whole before its import is finished"
    if finding.records is Records.MAYBE_MISSING and finding.code is FindingCode.INDEX_CORRUPT:
        return (
            f"{named} may be missing: after a crash of the system an index can be ahead of its .log"
        )
    text = {
        Records.NONE: "no record is lost",
        Records.MAYBE_MISSING: f"{named} may be missing, or were deleted: no file shows which",
        Records.MISSING: f"missing: {named}",
        Records.UNREADABLE: f"cannot be read: {named}",
        Records.WRONG: f"may be read wrong: {named}",
    }[finding.records]
    if finding.salvageable:
        text += f"; after the damage {ranges_text(finding.salvageable)} can be salvaged"
    return text


def _short(text: str | None) -> str:
    """Return *text*, cut where it is long: a file may be one line of zeros."""
    if text is None:
        return ""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
