"""The piece of docs/values.md for Spark prints what it says, after the sections that it names."""

from __future__ import annotations

import pytest

from tests.kits.values_page import PIECES, expected_prints, schema_registry


def test_the_piece_prints_what_it_says(spark, tmp_path, monkeypatch, capsys):
    for library in ("fastavro", "pandas", "polars"):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    program = {"__name__": "__main__", "spark": spark}
    # the session of the tests was started in another folder
    piece = PIECES["Spark"].replace('path="', f'path="{tmp_path}/')
    with schema_registry() as address:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", address)
        for title in ("JSON", "Avro with a schema registry"):
            exec(PIECES[title], program)
        capsys.readouterr()
        exec(piece, program)

    assert capsys.readouterr().out.splitlines() == expected_prints(PIECES["Spark"])
