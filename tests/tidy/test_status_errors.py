"""Every status of the core has its exception, which survives the way between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from segstore import errors
from segstore.status_errors import STATUS_ERRORS
from tests.tidy.project_files import ROOT

NO_ERROR = {
    "OK",
    "CALLBACK",  # the exception that is pending in Python travels on unchanged
}
ERRORS = [getattr(errors, name) for name in errors.__all__]


def status_names() -> set[str]:
    """Names in SGS_STATUS_MAP."""
    text = (ROOT / "csrc" / "base" / "status.h").read_text(encoding="utf-8")
    table = re.search(r"#define SGS_STATUS_MAP\(X\)(.*?[^\\])\n", text, re.DOTALL)
    assert table is not None
    return set(re.findall(r"^\s*X\((\w+),", table.group(1), re.MULTILINE))


def test_every_status_has_an_exception_class():
    """A status without a class would surface as something else."""
    expected = status_names() - NO_ERROR

    assert "CORRUPT_RECORD" in expected
    assert set(STATUS_ERRORS) - NO_ERROR == expected
    assert all(issubclass(each, errors.SegstoreError) for each in STATUS_ERRORS.values())


def test_every_status_has_a_class_of_its_own_name():
    """Two statuses that raise the same class could not be told apart."""
    classes = [each for name, each in STATUS_ERRORS.items() if name not in NO_ERROR]

    assert len(set(classes)) == len(classes)


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each.__name__)
def test_an_error_survives_pickling(error):
    """Spark's executors send exceptions to the driver."""
    raised = error(
        "offset 7 is gone",
        file="00000000000000000000.log",
        position=61,
        found="crc 1",
        expected="crc 2",
        os_error=5,
    )

    back = pickle.loads(pickle.dumps(raised))

    assert type(back) is error
    assert str(back) == str(raised)
    for name in ("message", "file", "position", "found", "expected", "os_error"):
        assert getattr(back, name) == getattr(raised, name)


@pytest.mark.parametrize(
    "error",
    [each for each in ERRORS if each is not errors.SegstoreError],
    ids=lambda each: each.__name__,
)
def test_an_error_is_also_a_built_in_one(error):
    """``except OSError`` or ``except ValueError`` works for who does not know segstore."""
    built_in = [
        each
        for each in error.__mro__
        if each.__module__ == "builtins" and each not in (Exception, BaseException, object)
    ]

    assert built_in
