"""The module by which Spark finds the source: it must never raise, whatever is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> str:
    """Run *code* in a fresh interpreter, from the checkout."""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_importing_it_imports_neither_segstore_nor_pyarrow():
    """A module that is slow or broken would hide every other source from Spark."""
    loaded = run(
        "import sys, pyspark_segstore\n"
        "print([m for m in ('segstore', 'segstore._core', 'pyarrow') if m in sys.modules])"
    )

    assert loaded in {"[]", "['pyarrow']"}  # PySpark's own interface may bring pyarrow


@pytest.mark.parametrize(
    "broken",
    [
        "sys.modules['pyspark'] = None",
        "sys.modules['pyspark.sql.datasource'] = None",
        "import types; sys.modules['pyspark.sql.datasource'] = types.ModuleType('old')",
    ],
)
def test_it_is_silent_without_a_pyspark_that_has_data_sources(broken):
    assert (
        run(
            f"import sys\n{broken}\n"
            "import pyspark_segstore\nprint(hasattr(pyspark_segstore, 'DefaultSource'))"
        )
        == "False"
    )


def test_it_offers_a_data_source_named_segstore():
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import DataSource

    import pyspark_segstore

    assert issubclass(pyspark_segstore.DefaultSource, DataSource)
    assert pyspark_segstore.DefaultSource.name() == "segstore"


def test_it_is_found_where_spark_looks():
    """Spark walks the folders of sys.path; import hooks are not asked."""
    found = run(
        "import pkgutil\n"
        "print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_seg')])"
    )

    assert found == "['pyspark_segstore']"
