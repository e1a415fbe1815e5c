"""Rules for every file: names, tests, and what must not stand in it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.tidy.project_files import ROOT, core_files, name_of, project_files

CODE = (".c", ".h", ".py", ".pyx", ".pxi", ".pxd")

# A .c of the core without a test of its own stem: the test that reaches it through its callers.
TESTED_BY = {
    "csrc/io/env_sim_control.c": "tests/c/test_env_sim.c",
    "csrc/io/env_sim_directory.c": "tests/c/test_env_sim.c",
    "csrc/io/env_sim_file.c": "tests/c/test_env_sim.c",
    "csrc/io/env_sim_log.c": "tests/c/test_env_sim.c",
    "csrc/record/append_writer.c": "tests/c/test_log_validator_rebuild.c",
    "csrc/record/binary_column.c": "tests/c/test_columns.c",
    "csrc/record/columns_fill.c": "tests/c/test_columns.c",
    "csrc/record/columns_schema.c": "tests/c/test_columns.c",
    "csrc/record/record_parse.c": "tests/c/test_record.c",
    "csrc/record/record_section.c": "tests/c/test_record.c",
    "csrc/record/validate_in_place.c": "tests/c/test_log_validator.c",
    "csrc/record/validate_rebuild.c": "tests/c/test_log_validator_rebuild.c",
    "csrc/record/validate_rules.c": "tests/c/test_log_validator.c",
    "csrc/segment/segment_files.c": "tests/c/test_log_segment.c",
    "csrc/segment/segment_lifecycle.c": "tests/c/test_log_segment.c",
}

TEXT = (*CODE, ".pyi", ".md", ".toml", ".json", ".java", ".xml", ".in", ".mk", ".sh", "")

MOST_REGRESSION_FILES = 40

# Brackets around a letter keep this file from holding what it looks for.
MACHINE_PATHS = re.compile(r"/(?:[w]ork|[r]oot|[f]arm)/|/home/\w")
REGISTRIES = re.compile(
    r"[p]ypi\.org|[p]ythonhosted|[r]epo1?\.maven|[n]pmjs\.|[c]rates\.io|[d]eb\.debian|[p]roxy\.golang"
)
UNFINISHED = re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX|[H]ACK)\b")


def texts():
    """Name and text of every file that people write."""
    for path in project_files(*TEXT):
        try:
            yield name_of(path), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a corpus file without suffix is bytes
            continue


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATHS, REGISTRIES, UNFINISHED], ids=["path", "registry", "unfinished"]
)
def test_no_file_speaks_of_one_machine_or_of_work_left_undone(pattern):
    """What stands here must be true on every machine."""
    found = [(name, match.group()) for name, text in texts() for match in pattern.finditer(text)]

    assert found == []


def test_a_stem_names_one_source():
    """One concept is one stem; C and Python have one each, since the class wraps the struct."""
    for suffixes in [(".c",), (".h",), (".py",), (".pxi",), (".pxd",)]:
        files = [*project_files(*suffixes)]
        sources = [path for path in files if name_of(path).startswith(("csrc/", "segstore/"))]
        stems = Counter(path.stem for path in sources if not path.stem.startswith("__"))

        assert [stem for stem, count in stems.items() if count > 1] == []


def test_every_source_of_the_core_has_a_test():
    """tests/c mirrors csrc file by file."""
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "c").rglob("test_*.c")}

    untested = {name_of(path) for path in core_files(".c") if path.stem not in tests}
    assert untested - set(TESTED_BY) == set()
    assert set(TESTED_BY) - untested == set(), "has a test of its own now: take it out of the list"
    assert {name for name in TESTED_BY.values() if not (ROOT / name).is_file()} == set()


def test_every_fuzz_target_has_a_corpus():
    """[DUR-113] A target without inputs finds nothing when the corpora are replayed."""
    targets = {
        path.stem.removeprefix("fuzz_") for path in (ROOT / "csrc" / "fuzz").glob("fuzz_*.c")
    }
    corpora = {
        path.name
        for path in (ROOT / "tests" / "corpus").iterdir()
        if path.is_dir() and any(file.is_file() for file in path.iterdir())
    }

    assert corpora == targets


def test_a_stem_names_one_file_of_tests():
    """A name on the command line or in a report leads to one file."""
    files = [path for path in project_files(".py") if name_of(path).startswith("tests/")]
    stems = Counter(path.stem for path in files if path.stem not in {"__init__", "conftest"})

    assert [stem for stem, count in stems.items() if count > 1] == []


def test_unit_tests_lie_in_the_rooms_of_their_sources():
    """tests/unit mirrors segstore; the extension module has the folder ``core``."""
    unit = ROOT / "tests" / "unit"
    rooms = {
        path.parent.relative_to(unit).as_posix()
        for path in unit.rglob("test_*.py")
        if path.parent not in {unit, unit / "core"}
    }

    assert rooms
    assert [room for room in rooms if not (ROOT / "segstore" / room).is_dir()] == []


@pytest.mark.parametrize("folder", ["conformance", "regression", "unit"])
def test_helpers_of_tests_lie_in_kits(folder):
    """These folders hold tests alone; ``user_code.py`` is what a test gives to a type checker."""
    files = (ROOT / "tests" / folder).rglob("*.py")
    helpers = {path.name for path in files if not path.name.startswith("test_")}

    assert helpers - {"conftest.py", "user_code.py"} == set()


def test_regressions_lie_in_files_by_subject():
    """A bug gets a test in the file of its subject, under a heading, and no file of its own."""
    files = sorted((ROOT / "tests" / "regression").glob("test_*.py"))

    assert 0 < len(files) <= MOST_REGRESSION_FILES
    assert [name_of(path) for path in files if "\n# ---- " not in path.read_text()] == []
