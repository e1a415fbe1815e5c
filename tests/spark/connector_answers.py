"""Where the answers of Spark's own Kafka connector are: a folder of that schema, or packed here.

Recorded with pyspark 4.2.0 and spark-sql-kafka-0-10 4.2.0 against a Kafka 4.3.1 broker that was
opened on a copy of each golden case. One object a line.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any


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
