"""Files of vectors: a folder named on the command line, or the packed choice of lines."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Case = dict[str, Any]

PACK = Path(__file__).with_name("vectors.tar.xz")
OTHER_SEEDS = Path(__file__).with_name("other_seeds.tar.xz")
"""Cases of other runs of the oracle in which this library once differed; the id names the seed."""
SHOWN_FAILURES = 20


def stem_of(name: str) -> str:
    """``records`` of ``records.jsonl`` and ``records.jsonl.gz``."""
    return name.partition(".jsonl")[0]


def stem_of_module(module: Path) -> str:
    """``loader`` of ``test_vectors_loader.py`` and ``test_vectors_loader_safe.py``."""
    return module.stem.removeprefix("test_vectors_").removesuffix("_safe")


def read_folder(folder: Path, stem: str) -> list[Case]:
    """Objects of one file of the folder; none when it is not there."""
    for path in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.gz"):
        if path.exists():
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8") as lines:
                return [json.loads(line) for line in lines]
    return []


def read_pack(stem: str) -> list[Case]:
    """Objects of one file of the packed choice, and of other seeds; none when it is not there."""
    return [case for pack in (PACK, OTHER_SEEDS) for case in _read_archive(pack, stem)]


def _read_archive(path: Path, stem: str) -> list[Case]:
    with tarfile.open(path) as archive:
        for member in archive:
            if stem_of(member.name) == stem:
                file = archive.extractfile(member)
                assert file is not None
                return [json.loads(line) for line in file]
    return []


def file_stems(folder: Path | None) -> list[str]:
    """Names of the files that there are, without their endings."""
    if folder is None:
        with tarfile.open(PACK) as archive:
            return sorted(stem_of(name) for name in archive.getnames())
    return sorted({stem_of(path.name) for path in folder.glob("*.jsonl*")})


def vectors_folder(config: pytest.Config) -> Path | None:
    """Return the folder given by ``--vectors``, None for the packed choice."""
    given = config.getoption("--vectors")
    if given is None:
        return None
    folder = Path(given).resolve()
    if not folder.is_dir():
        message = f"--vectors: {given} is not a folder"
        raise pytest.UsageError(message)
    return folder


class Cases:
    """Cases of one file, counted as they pass: iterate, or hand over the comparison of one."""

    def __init__(self, stem: str, cases: list[Case]) -> None:
        self._cases = cases
        self.tally = [stem, 0, len(cases)]
        """File, equal, compared; a list, so that a report holds what it says in the end."""
        self.later: dict[str, list[str]] = {}
        """Cases in which we follow Kafka 4.4.0, by row of the last table of the vectors' README."""
        self.differing: dict[str, list[str]] = {}
        """Cases in which the safe profile differs from Kafka, by its rule."""

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases; who comes back for the next was content with the last."""
        for case in self._cases:
            yield case
            self.tally[1] += 1

    def __len__(self) -> int:
        return len(self._cases)

    def follows_4_4(self, case: Case, row: str) -> None:
        """Name a case that differs from 4.3.1, which the vectors are of, for this row."""
        self.later.setdefault(row, []).append(case["id"])

    def differs(self, case: Case, rule: str) -> None:
        """Name a case in which the safe profile differs from Kafka, for this rule."""
        self.differing.setdefault(rule, []).append(case["id"])

    def check(self, compare: Callable[[Case], None]) -> None:
        """Compare every case; fail in the end with the first of those that differ."""
        failures = []
        for case in self._cases:
            try:
                compare(case)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the next counts too
                reason = str(error).strip() or type(error).__name__
                failures.append(f"{case['id']} ({case['about']}): {type(error).__name__}: {reason}")
            else:
                self.tally[1] += 1
        if failures:
            shown = "\n".join(failures[:SHOWN_FAILURES])
            pytest.fail(f"{len(failures)} of {len(self._cases)} differ:\n{shown}", pytrace=False)
