"""Statuses of the core become exceptions with file, position, found and expected."""

from __future__ import annotations

import pickle

import pytest

from segstore import _core, errors
from segstore._core import Directory, encode_records, scan_batches
from segstore.errors import CorruptRecordError, SegstoreError
from segstore.records.compression import codec_table
from segstore.status_errors import STATUS_ERRORS
from tests.kits.core_inputs import batch


def test_every_status_has_an_exception_class_and_no_class_waits_for_a_status_that_is_gone():
    assert set(STATUS_ERRORS) == set(_core.STATUS_NAMES) - {"OK"}


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_errors_survive_pickling_with_all_they_say(name: str):
    error_class = getattr(errors, name)
    assert issubclass(error_class, SegstoreError)
    error = error_class("text", file="a.log", position=7, found="x", expected="y", os_error=5)

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is error_class
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_an_error_of_the_core_says_where_what_was_found_and_what_was_expected():
    data = bytearray(batch([(b"k", b"v")]))
    data[-1] ^= 1

    _, result = scan_batches(data)

    assert isinstance(result.why, CorruptRecordError)
    assert isinstance(result.why, ValueError)
    assert result.why.position == 0
    assert result.why.found
    assert result.why.expected
    assert result.why.file is None


def test_errors_about_files_name_the_full_path(tmp_path):
    directory = Directory(str(tmp_path))

    with pytest.raises(errors.LogNotFoundError) as caught:
        directory.read_file("absent")

    assert caught.value.file == str(tmp_path / "absent")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.os_error is not None


def test_messages_hold_no_payload():
    """[DUR-105]"""
    secret = b"secret-payload"
    data = bytearray(batch([(b"k", secret)]))
    data[-3] ^= 1

    _, result = scan_batches(data)

    assert "secret" not in repr(vars(result.why))


def test_an_exception_of_a_compression_library_travels_unchanged():
    def fail(_data, _level_or_limit):
        raise ZeroDivisionError("mine")

    table = _core.CodecTable({1: ("broken", fail, fail)})

    with pytest.raises(ZeroDivisionError, match="mine"):
        encode_records([(b"k", b"v")], _core.BatchOptions(codec=1), table, 0, 1000)
    packed = batch([(b"k", b"v")], codec=1)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        _core.decode_tuples(packed, table)
    assert caught.value.__traceback__ is not None


def test_a_library_that_ignores_the_limit_is_stopped():
    table = _core.CodecTable(
        {1: ("careless", lambda data, _level: data, lambda _data, _limit: bytes(101))}, 100
    )

    with pytest.raises(errors.LimitExceededError):
        _core.decode_values(batch([(b"k", b"v")], codec=1), table)


@pytest.mark.parametrize("providers", [{0: ("none", bytes, bytes)}, {5: ("unknown", bytes, bytes)}])
def test_providers_are_for_the_four_codecs(providers):
    with pytest.raises(errors.IllegalArgumentError):
        _core.CodecTable(providers)


def test_the_names_of_a_table_are_those_given():
    assert codec_table().names == {1: "zlib", 2: "cramjam", 3: "lz4", 4: "zstd"}
