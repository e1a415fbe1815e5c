"""Every door of segstore, asked about one directory; what they disagree about, as sentences."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pickle
import random
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import segstore
from segstore import cli
from tests.kits.damages import ABOVE, damage, page_of

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Sequence

    from tests.kits.damages import Original

LOST = {"MISSING", "UNREADABLE", "WRONG"}
EXIT_USAGE = 2
_build_parser = cli.build_parser


@functools.cache
def _parser(command: str) -> ArgumentParser:
    """Make it once: that costs more than most commands."""
    return _build_parser([command])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    values: dict[str, Any]
    """The object that it printed."""
    errors: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        return self.values.get("findings", [])


def asked(*command: str) -> Answer:
    """Run a command as the program does."""
    with (
        io.TextIOWrapper(io.BytesIO()) as out,
        io.TextIOWrapper(io.BytesIO()) as err,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(cli, "build_parser", lambda argv: _parser(argv[0])),
    ):
        code = cli.main(command)
        printed, said = out.buffer.getvalue(), err.buffer.getvalue()
    values = json.loads(printed) if "--json" in command and printed else {}
    return Answer(code, values, said.decode(errors="replace"))


def offsets_in(ranges: Iterable[Sequence[int | None]], records: frozenset[int]) -> set[int]:
    """Return those of *records* that lie in ranges of a first and a last offset."""
    found = set()
    for first, last in ranges:
        found |= {one for one in records if one >= first and (last is None or one <= last)}
    return found


def lost_in(findings: list[dict[str, Any]], records: frozenset[int], kinds: set[str]) -> set[int]:
    chosen = (one for one in findings if one["records"] in kinds)
    return offsets_in((each for one in chosen for each in one["lost"]), records)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What a salvage said, and what is in the new log."""

    code: int
    errors: str
    kept: set[int]
    lost: set[int]
    unsure: set[int]


class Doors:
    """Asks all doors about a damaged copy of *original* at *path*."""

    def __init__(self, original: Original, path: Path, place: Path) -> None:
        self._records, self._is_exact = original.offsets, original.is_exact
        self._files = original.files
        self._path = path
        self._place = place
        self.said: list[str] = []
        """What does not fit together."""

    def _expect(self, is_so: object, *facts: object) -> None:
        if not is_so:
            self.said.append(" ".join(map(str, facts)))

    def ask(self) -> None:
        """Ask; *said* is empty where all doors agree."""
        path = str(self._path)
        verified = self._ask_checks(path)
        expected = verified.findings
        read = self._ask_readers(path, verified)
        before = self._salvage("before")
        self._compare_salvage(before, verified, read)
        foretold = asked("recover", "--dry-run", "-q", "--json", path)
        self._expect(foretold.findings == expected, "dry run:", _differing(foretold, verified))
        self._compare_advice(expected)
        files = _bytes_in(self._path)
        done = asked("recover", "-q", "--json", path)
        self._compare_names(foretold, done, files)
        codes = {(foretold.code, done.code)}
        self._expect(
            foretold.code == done.code or (codes == {(1, 0)} and _is_forgotten(expected)),
            f"dry run answers {foretold.code}, recover {done.code}",
            done.errors,
        )
        if done.code != EXIT_USAGE:
            self._look_again(path, verified, done, before)

    def _ask_checks(self, path: str) -> Answer:
        verified = asked("verify", "-q", "--json", path)
        scrubbed = asked("scrub", "-q", "--json", "--rate", "0", path)
        expected = verified.findings
        for name, one in (("verify", verified), ("scrub", scrubbed)):
            right = 1 if expected else 0
            self._expect(one.code == right, f"{name} answers {one.code}, not {right}", one.errors)
        self._expect(scrubbed.findings == expected, "scrub:", _differing(scrubbed, verified))
        return verified

    def _ask_readers(self, path: str, verified: Answer) -> set[int] | None:
        """Ask those who read; return what they give around damage."""
        records, findings = self._records, verified.findings
        listed = asked("ls", "--json", path)
        inspected = asked("inspect", "-q", "--json", path)
        printed = asked("cat", "-q", path)
        try:
            with segstore.open(path, read_only=True) as log:
                checked = json.loads(json.dumps(log.verify().to_dict()))
                given = [record.offset for record in log.scan(on_damage="skip")]
                self._follow_the_errors(log, given)
                missing = offsets_in(
                    [(one.first_offset, one.next_offset - 1) for one in log.missing_records()],
                    records,
                )
                bounds = (log.log_start_offset, log.log_end_offset)
                damage = log.report.damage
        except segstore.SegstoreError as error:  # what a reader refuses, every door has named
            self._expect(bool(findings or verified.values["notes"]), "no finding, and", error)
            self._expect(listed.code != 0, "ls lists what cannot be opened")
            self._expect(printed.code != 0, "cat prints what cannot be opened")
            self._expect(inspected.code != 0, "inspect shows what cannot be opened")
            return None
        answer = Answer(0, checked, "")
        self._expect(answer.findings == findings, "log.verify():", _differing(answer, verified))
        lists = (listed.values.get("log_start_offset"), listed.values.get("log_end_offset"))
        self._expect(lists == bounds, f"ls lists {lists}, a reader {bounds}", listed.errors)
        is_damaged = damage is not None or bool(missing)
        codes = (listed.code, inspected.code)
        self._expect(is_damaged <= codes[0] <= codes[1], "ls and inspect answer", codes)
        self._expect(findings or codes == (0, 0), "no finding, and ls and inspect answer", codes)
        self._expect(sorted(set(given)) == given, "cat gives offsets twice, or not in order")
        lost = lost_in(findings, records, {"MISSING", "UNREADABLE"} if self._is_exact else set())
        self._expect(lost.isdisjoint(given), "lost, and read:", _ranges(lost & set(given)))
        return set(given)

    def _follow_the_errors(self, log: segstore.Log, given: list[int]) -> None:
        """Read on where each error says: that gives what a scan around damage gives."""
        read: list[int] = []
        offset: int | None = log.log_start_offset
        while offset is not None:
            before = (offset, len(read))
            try:
                read.extend(record.offset for record in log.scan(offset))
                offset = None
            except segstore.SegstoreError as error:
                offset = error.next_readable_offset
            if before == (offset, len(read)):
                self._expect(False, "an error leads to itself, at", offset)
                return
        # the search goes around blocks of 4 KiB, and the pages here are smaller
        expected = {one for one in given if one < log.log_end_offset}
        more = set() if "EIO_FILE" in os.environ else {*read} - expected
        self._expect(sorted({*read}) == read, "errors lead to offsets twice, or not in order")
        self._expect(expected <= {*read}, "errors lead past", _ranges(expected - {*read}))
        self._expect(not more, "left out around damage, and read:", _ranges(more))

    def _salvage(self, name: str) -> Salvaged:
        target = self._place / name / self._path.name
        answer = asked("salvage", "-q", "--json", str(self._path), str(target))
        values = answer.values
        if not values:
            return Salvaged(answer.code, answer.errors, set(), set(), set())
        lost = [(one["first_offset"], _before(one["next_offset"])) for one in values["lost"]]
        unsure = [(first, following - 1) for first, following in values["maybe_lost"]]
        with segstore.open(target, read_only=True) as log:
            start = log.log_start_offset
            kept = {record.offset for record in log.scan()}
            end = log.log_end_offset
        aside = [one["first_offset"] for one in values["lost"] if "quarantine" in one["file"]]
        kept_from = min([end, *aside])  # between and behind the batches there, damaged bytes are
        is_kept = bool(values["quarantined"] or aside)
        outside = {one for one in self._records if one < start or (is_kept and one >= kept_from)}
        shutil.rmtree(target.parent)
        return Salvaged(
            answer.code,
            answer.errors,
            kept,
            offsets_in(lost, self._records),
            offsets_in(unsure, self._records) | outside,
        )

    def _compare_salvage(self, found: Salvaged, verified: Answer, read: set[int] | None) -> None:
        lost = lost_in(verified.findings, self._records, LOST)
        unsure = lost_in(verified.findings, self._records, {"MAYBE_MISSING"})
        start = verified.values.get("log_start_offset", 0)  # what lies below it was deleted
        unsure |= {one for one in self._records if one < start}
        if found.code == 0:
            self._expect(not lost, "salvage loses nothing, findings", _ranges(lost))
        self._expect(
            lost <= found.lost | found.unsure or "no batch" in found.errors or found.code == 2,
            "findings lose, salvage does not:",
            _ranges(lost - found.lost - found.unsure),
            found.errors,
        )
        self._expect(
            not self._is_exact or found.lost <= lost | unsure,
            "salvage loses, findings do not:",
            _ranges(found.lost - lost - unsure),
        )
        if read is not None and found.kept:
            self._expect(read <= found.kept, "read, and not salvaged:", _ranges(read - found.kept))

    def _compare_advice(self, findings: list[dict[str, Any]]) -> None:
        """No file that is to be restored from a copy is as it was.

        An index with a flipped bit may name an offset that no record has: nothing shows that.
        """
        for one in findings:
            name = one["file"]
            if one["lost"] and not lost_in([one], self._records, LOST | {"MAYBE_MISSING"}):
                continue
            path = self._path / name
            is_as_it_was = path.is_file() and self._files.get(name) == _content(path)
            told = one["advice"]
            self._expect(
                not (is_as_it_was and f"restore {name} " in told), "to restore, and sound:", told
            )

    def _compare_names(self, foretold: Answer, done: Answer, before: dict[str, bytes]) -> None:
        """What a repair has changed is what its report names, and what the dry run has named.

        Of a split the dry run says that what comes after it is not known before; the report says
        into how many segments.
        """
        if "error" in done.values or done.code == EXIT_USAGE:
            is_refused = foretold.values["forecast"]["error"] is not None or foretold.code == 1
            self._expect(is_refused, "dry run foretells no refusal:", done.values, done.errors)
            return
        if any(one["code"] == "SEGMENT_OVERFLOWS" for one in foretold.findings):
            return
        would = foretold.values["repair"]
        for kind in ("rebuilt", "removed", "set_aside", "quarantined"):
            names = sorted(would[kind]), sorted(done.values[kind])
            self._expect(names[0] == names[1], f"dry run has {kind}", *names)
        after = _bytes_in(self._path)
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        named = {name for kind in ("rebuilt", "removed") for name in done.values[kind]}
        named |= {name for kind in ("set_aside", "quarantined") for name in done.values[kind]}
        named |= {one["file"] for one in done.values["repaired"]}
        gone = [name[:20] for name in named if name.endswith(".log") or ".quarantine-" in name]
        named |= {name for name in changed if name[:20] in gone}  # with a segment go its indexes
        named |= {name for name in changed if _is_trimmed(before.get(name), after.get(name))}
        active = max((name[:20] for name in after if name.endswith(".log")), default="")
        own = {name for name in changed - named if _is_of_every_open(name, active)}
        if after.get(f"{active}.log") == b"":  # where all was set aside, the log begins there
            own.add(f"{active}.log")
        self._expect(
            changed <= named | own, "changed, and not named:", sorted(changed - named - own)
        )

    def _look_again(self, path: str, verified: Answer, done: Answer, before: Salvaged) -> None:
        """After `recover`: what it promised is good, and what was missing is missing."""
        after = asked("verify", "-q", "--json", path)
        promised = {_identity(one): one for one in verified.findings if one["repaired"]}
        left = {_identity(one) for one in after.findings}
        if "no producer snapshot" not in str(done.values.get("error")):  # read at the open alone
            self._expect(not (promised.keys() & left), "not repaired:", promised.keys() & left)
        told = {_identity(one) for one in done.values.get("not_repaired", [])}
        self._expect(told == left, "recover names as left", told ^ left)
        lost = lost_in(verified.findings, self._records, {"MISSING"})
        start, end = after.values["log_start_offset"], after.values["log_end_offset"]
        still = lost_in(after.findings, self._records, {"MISSING"})
        still |= {one for one in self._records if not start <= one < end}
        self._expect(lost <= still, "missing, and present after recover:", _ranges(lost - still))
        again = self._salvage("after")
        kept = before.kept & self._records  # a flipped bit may have made an offset of its own
        gone = kept - again.kept - again.lost - again.unsure
        self._expect(not gone, "kept before recover, and not told after:", _ranges(gone))
        back = before.lost - again.lost - again.unsure
        self._expect(
            not back or not self._is_exact, "lost before recover, and not after:", _ranges(back)
        )


def _is_forgotten(findings: list[dict[str, Any]]) -> bool:
    """Whether a doubt about an empty segment is all that is left: `.segstore` takes it away."""
    left = [one["code"] for one in findings if not one["repaired"]]
    return {*left} == {"RECORDS_MAYBE_MISSING"}


def _bytes_in(path: Path) -> dict[str, bytes]:
    """Return what the files of a partition hold."""
    return {one.name: _content(one) for one in path.iterdir() if one.is_file()}


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:  # the disk does not give it out
        return str(error.errno).encode()


def _is_trimmed(before: bytes | None, after: bytes | None) -> bool:
    """Whether only zeros at the end went: a close trims the indexes that were looked at."""
    return bool(before and after) and before.rstrip(b"\0") == after.rstrip(b"\0")


def _is_of_every_open(name: str, active: str) -> bool:
    """Whether an open for writing and its close write the file of any log.

    A close trims the indexes of the *active* segment, and ends its time index.
    """
    if name in {f"{active}.index", f"{active}.timeindex"}:
        return True
    is_checkpoint = name.endswith("-checkpoint")
    return is_checkpoint or name.startswith(".") or name.endswith(".snapshot")


def _before(offset: int | None) -> int | None:
    return None if offset is None else offset - 1


def _identity(finding: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(finding[name] for name in ("code", "file", "position", "first_offset"))


def _differing(one: Answer, other: Answer) -> list[dict[str, Any]]:
    return [each for each in one.findings if each not in other.findings] + [
        each for each in other.findings if each not in one.findings
    ]


def _ranges(offsets: set[int]) -> str:
    """Name offsets: 3-7, 9."""
    texts: list[list[int]] = []
    for one in sorted(offsets):
        if texts and texts[-1][-1] == one - 1:
            texts[-1][1:] = [one]
        else:
            texts.append([one])
    return ", ".join("-".join(map(str, one)) for one in texts)


@functools.cache
def _originals(folder: Path) -> list[Original]:
    found: list[Original] = pickle.loads((folder / "originals").read_bytes())
    return found


def disagreements(folder: Path, seed: int, *, page: bool = False) -> list[str]:
    """Damage one of the partitions in *folder* and ask all doors; return what does not fit.

    Parameters
    ----------
    page : bool
        A page of a file, or all of it, cannot be read: `unreadable_pages.c` is preloaded.
    """
    draw = random.Random(seed)
    original = draw.choice(_originals(folder))
    place = folder / f"{os.getpid()}"
    path = original.write_to(place / "data")
    if page:
        name, first, end = page_of(original, draw)
        above = name.startswith(ABOVE)
        file = f"data/{name.removeprefix(ABOVE)}" if above else f"{original.name}/{name}"
        inode = (path / name).stat().st_ino
        bad = {"EIO_FILE": file, "EIO_FROM": first, "EIO_TO": end, "EIO_INODE": inode}
        os.environ |= {key: str(value) for key, value in bad.items()}
        done = [f"unreadable {name} from {first} to {end}"]
    else:
        done = damage(original, path, draw)
    doors = Doors(original, path, place)
    try:
        doors.ask()
    finally:
        os.environ.pop("EIO_FILE", None)
        shutil.rmtree(place)
    return [f"seed {seed}, {original.name}, {', '.join(done)}: {text}" for text in doors.said]


def main(folder: str, first: str, end: str) -> None:
    """Ask about unreadable pages, with these seeds."""
    for seed in range(int(first), int(end)):
        for text in disagreements(Path(folder), seed, page=True):
            print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
