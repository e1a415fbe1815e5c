"""Helpers of the tests of commits: what is there afterwards, and ways to fail."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from itertools import chain

from segstore._core import BatchOptions, encode_records
from segstore.log.unified_log import UnifiedLog
from segstore.records.compression import codec_table
from segstore.spark.commit_log import producer_id_of
from tests.kits.sink_kit import QUERY, values_of

KILLED = 77
SMALL = {"batch.size": "64"}  # a batch of a record or two


def all_values(path):
    return sorted(chain.from_iterable(values_of(path).values()))


def assert_once_and_in_order(path, count):
    values = values_of(path)
    assert sorted(chain.from_iterable(values.values())) == list(range(count))
    assert all(numbers == sorted(numbers) for numbers in values.values())


def state_of(path, query=QUERY):
    text = (path / f".segstore-commit-{producer_id_of(query):016x}.json").read_text()
    content = json.loads(text)
    return content["version"], content["state"]


def wrapped_batch(producer, base_sequence, offset):
    options = BatchOptions(
        base_offset=offset,
        partition_leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=base_sequence,
    )
    now = int(time.time() * 1000)
    return bytes(memoryview(encode_records([(b"k", b"-1")], options, codec_table(), now, 1 << 20)))


def fail_at_append(monkeypatch, nth):
    appends, append = [], UnifiedLog.append_as_leader

    def failing(self, *arguments, **named):
        appends.append(self)
        if len(appends) == nth:
            raise OSError("as asked")
        return append(self, *arguments, **named)

    monkeypatch.setattr(UnifiedLog, "append_as_leader", failing)


def run_in_a_process_that_dies(action, at=None) -> int:
    """Fork, run *action* and die without a word at its *at*-th call; returns the calls made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event == "call"
            if calls == at:
                os._exit(KILLED)

        try:
            sys.setprofile(count)
            action()
            sys.setprofile(None)
            os.write(writing, str(calls).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it is no business of the parent's stack
            sys.setprofile(None)
            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code == (0 if at is None or text else KILLED)
    return int(text or at)
