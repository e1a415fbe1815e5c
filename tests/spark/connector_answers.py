"""Where the answers of Spark's own Kafka connector are: a folder of that schema, or packed here.

Recorded with pyspark 4.2.0 and spark-sql-kafka-0-10 4.2.0 against a Kafka 4.3.1 broker that was
opened on a copy of each golden case. One object a line.

The directory that packed answers are about is found by what is in it, whatever its name is.
``python -m tests.spark.connector_answers GOLDEN_FOLDER`` notes this anew, when the packed answers
are.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

FINGERPRINTS = Path(__file__).with_name("connector_cases.json")


@cache
def read_answers(folder: str | None, stem: str) -> tuple[dict[str, Any], ...]:
    """Return the lines of ``<stem>.jsonl`` in *folder*, or of the packed file."""
    if folder is not None:
        path = Path(folder) / f"{stem}.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    else:
        packed = Path(__file__).parent / f"connector_{stem}.jsonl.gz"
        text = gzip.decompress(packed.read_bytes()).decode("utf-8")
    return tuple(json.loads(line) for line in text.splitlines())


def fingerprint(directory: Path) -> str:
    """SHA-256 of what Kafka's classes say of the case's files; their own hashes are in it."""
    described = json.loads((directory / "case.json").read_text(encoding="utf-8"))
    partitions = described["expected_data"]["partitions"]
    return hashlib.sha256(json.dumps(partitions, sort_keys=True).encode("ascii")).hexdigest()


@cache
def _by_fingerprint(golden: Path) -> dict[str, Path]:
    return {fingerprint(file.parent): file.parent for file in golden.glob("*/case.json")}


@cache
def _packed_fingerprints() -> dict[str, str]:
    fingerprints: dict[str, str] = json.loads(FINGERPRINTS.read_text(encoding="ascii"))
    return fingerprints


def directory_of_case(folder: str | None, golden: Path, case: str) -> Path | None:
    """Return the directory under *golden* that was asked about as *case*; None = it is not there.

    Answers in a *folder* belong to the golden directories that are given with it, by their names.
    """
    if folder is not None:
        return golden / case if (golden / case).is_dir() else None
    return _by_fingerprint(golden).get(_packed_fingerprints()[case])


def main() -> None:
    """Note the fingerprint of each case that the packed answers are about."""
    golden = Path(sys.argv[1])
    lines = (*read_answers(None, "batch"), *read_answers(None, "streaming"))
    cases = sorted({line["case"] for line in lines})
    noted = json.dumps({case: fingerprint(golden / case) for case in cases}, indent=1)
    FINGERPRINTS.write_text(f"{noted}\n", encoding="ascii")


if __name__ == "__main__":
    main()
