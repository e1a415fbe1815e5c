"""An exception of the caller's own came back as another one when it was a ``TimeoutError``."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import TransferTimeoutError


class OwnTimeoutError(TimeoutError):
    """What a program's own destination raises, and catches."""


class Destination:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, _data: memoryview) -> int:
        raise self.error


@pytest.fixture
def records(tmp_path):
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(None, b"x")])
        yield log.slice(0, 1000)


def test_an_own_class_goes_through(records):
    """Whoever wrote ``except OwnTimeoutError`` did not get it."""
    error = OwnTimeoutError("mine")

    with pytest.raises(OwnTimeoutError) as caught:
        records.write_to(Destination(error))

    assert caught.value is error


def test_the_plain_one_is_that_of_a_transfer(records):
    """As a socket under TLS raises it."""
    error = TimeoutError("timed out")

    with pytest.raises(TransferTimeoutError, match="no room in time") as caught:
        records.write_to(Destination(error))

    assert caught.value.__cause__ is error
