"""Every piece of docs/values.md runs as it stands, and prints what it says.

That of Spark runs with the other tests of Spark.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kits.values_page import LIBRARIES, ORDERS_PB2, PIECES, expected_prints, schema_registry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("title", [title for title in PIECES if title != "Spark"])
def test_a_piece_prints_what_it_says(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip(LIBRARIES.get(title, "polars"))
    (tmp_path / "orders_pb2.py").write_text(ORDERS_PB2)
    with schema_registry() as address:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", address)
        done = subprocess.run(
            [sys.executable, "-c", PIECES[title]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert done.stderr == ""
    assert done.stdout.splitlines() == expected_prints(PIECES[title])
    assert done.stdout.count("\n") == PIECES[title].count("print(") > 0
