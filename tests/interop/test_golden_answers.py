"""What a broker answered about transactions and epochs, and what each kind of handle answers.

A handle that is only read knows the files; one that is written has producers and, with replicas, a
high watermark that its owner moves. The broker's answers are those of the second kind.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import SegstoreError
from tests.kits.kafka_loading import is_of_later_release

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.records.fetch_data_info import FetchDataInfo
    from tests.interop.conftest import GoldenSummary
    from tests.interop.golden_case import GoldenPartition

HANDLES: dict[str, dict[str, Any]] = {
    "reader": {"read_only": True},
    "writer": {"durability": "none"},
    "replica": {"durability": "none", "replicated": True},
    "kafka": {"recovery": "kafka"},
}


def opened(partition: GoldenPartition, tmp_path: Path, handle: str) -> segstore.UnifiedLog:
    """Open *partition* as *handle*: the directory itself to read, else a copy of it."""
    options = HANDLES[handle]
    if options.get("read_only"):
        return segstore.open(partition.directory, **options)
    data = tmp_path / "data"
    data.mkdir()
    for file in partition.data.iterdir():
        if file.is_file():
            shutil.copyfile(file, data / file.name)
    shutil.copytree(partition.directory, data / partition.name, copy_function=shutil.copyfile)
    log = segstore.open(data / partition.name, **options)
    if options.get("replicated") or "recovery" in options:
        log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("handle", HANDLES)
def test_fetches_name_the_aborted_transactions(
    served_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path, handle: str
):
    """[LOC-6, LOC-9, RD-1, LSO-2, TXX-*] records/fetches.json: bytes, bounds and aborted lists."""
    fetches = served_partition.fetches
    if not fetches:
        pytest.skip("the broker was not asked")
    try:
        wrong = wrong_fetches(served_partition, golden_summary, tmp_path, handle)
    except SegstoreError as error:
        if not is_of_later_release(error):
            raise
        golden_summary.name(f"{served_partition}, {handle}: as 4.4.0 (transaction index version)")
        return
    golden_summary.add(f"fetches of a {handle}", len(fetches) - len(wrong), len(fetches))
    assert wrong == []


def wrong_fetches(
    partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path, handle: str
) -> list[object]:
    """Fetch all that the broker was asked for; return what is different."""
    wrong: list[object] = []
    with opened(partition, tmp_path, handle) as log:
        for fetch in partition.fetches:
            found = log.read(fetch["fetch_offset"], fetch["max_bytes"], fetch["isolation"])
            aborted = found.aborted_transactions
            ours = {
                "records_sha256": hashlib.sha256(found.records).hexdigest(),
                "aborted_transactions": None if aborted is None else [list(one) for one in aborted],
                "last_stable_offset": log.last_stable_offset,
                "high_watermark": log.high_watermark,
            }
            different = [name for name, value in ours.items() if fetch[name] != value]
            if different == ["records_sha256"] and is_garbage_left_out(fetch, found):
                golden_summary.name(
                    f"{partition}, {handle}: zeros behind the last batch are cut [DUR-50]"
                )
            elif different:
                wrong.append((fetch, ours))
    return wrong


def is_garbage_left_out(fetch: dict[str, Any], found: FetchDataInfo) -> bool:
    """Whether the broker sent the same batches, and zeros of the file that are no batch."""
    batches = list(found.batches())
    zeros = hashlib.sha256(bytes(found.records) + bytes(fetch["records_bytes"] - found.size_bytes))
    return (
        batches[-1].last_offset == fetch["last_batch_last_offset"]
        and sum(one.size_bytes for one in batches) == found.size_bytes
        and fetch["records_sha256"] == zeros.hexdigest()
    )


@pytest.mark.parametrize("handle", ["reader", "kafka"])
def test_epochs_end_where_the_broker_said(
    served_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path, handle: str
):
    """[EPC-5, T-11] records/epoch_end_offsets.json."""
    answers = served_partition.epoch_end_offsets
    if not answers:
        pytest.skip("the broker was not asked")
    wrong = []
    epochs = served_partition.expected["leader_epochs"]
    began_afterwards = served_partition.epoch_begun_after_the_answers is not None
    if began_afterwards:
        golden_summary.name(f"{served_partition}: epoch {epochs[-1][0]} began afterwards")
        epochs = epochs[:-1]
        answers = [one for one in answers if epochs and one["epoch"] <= epochs[-1][0]]
    try:
        log = opened(served_partition, tmp_path, handle)
    except SegstoreError as error:
        if not is_of_later_release(error):
            raise
        golden_summary.name(f"{served_partition}, {handle}: as 4.4.0 (transaction index version)")
        return
    with log:
        if handle == "kafka" and epochs:  # its load drops an epoch without records
            log.assign_epoch_start_offset(*epochs[-1])  # as it became leader
        for answer in answers:
            expected = answer["answer_epoch"], answer["end_offset"]
            found = log.end_offset_for_epoch(answer["epoch"]) or (-1, -1)
            if found != expected:
                wrong.append((answer, found))
    golden_summary.add("ends of epochs", len(answers) - len(wrong), len(answers))
    assert wrong == []
