"""An open transaction ended committed reads early, and no command said so (situation 26).

``ls``, ``inspect`` and ``cat`` name it, a read-only handle gives it as a value, and an operator can
end it. Looked for besides: a transaction whose first batches were deleted, several at once, one
that is not old enough to hang, wrong epochs, a damaged log, and logs that a broker wrote.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import OpenTransaction, cli
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"segment_ms": None, "durability": "none"}
MINUTE_MS = 60 * 1000


@pytest.fixture
def broker_log(packed: Path, tmp_path: Path) -> Path:
    """A broker's partition with a transaction that hangs since offset 294 of 336."""
    return shutil.copytree(packed / "transactions-tv1" / "data", tmp_path / "g") / "ledger-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two open transactions: of producer 2 from offset 2 on, and of producer 1 from 4 on."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        first, second = Producer(log, 1), Producer(log, 2)
        first.write()  # 0
        first.end(COMMIT)  # 1
        second.write(2)  # 2, 3
        log.roll()
        first.write()  # 4
        second.write()  # 5
        write(log)  # 6
    return path


def committed(path: Path) -> list[int]:
    with segstore.open(path, read_only=True) as log:
        return [record.offset for record in log.scan(isolation="read_committed")]


def run(*arguments: object) -> int:
    return cli.main([*map(str, arguments)])


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_handle_gives_the_open_transactions(
    partition: Path,
    *,
    read_only: bool,
):
    """[LSO-1] In the order of their first offsets, the same to read and to write."""
    with segstore.open(partition, read_only=read_only) as log:
        found = log.open_transactions()

        assert [one[:3] for one in found] == [(2, 0, 2), (1, 0, 4)]
        first = next(iter(log.scan(2)))
        assert found[0].start_timestamp == first.timestamp
        assert log.last_stable_offset == 2


def test_of_a_transaction_whose_beginning_was_deleted(partition: Path):
    """[LSO-1, PSM-47] Both stay open; of the one without a batch the epoch is not known."""
    with segstore.open(partition, **SETTINGS) as log:
        log.delete_records(6)
        expected = {2: -1, 1: -1}
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        Producer(log, 1, sequence=2).write()  # 7
        expected[1] = 0
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        assert log.last_stable_offset == 6
    with segstore.open(partition, read_only=True) as log:
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        assert log.last_stable_offset == 6
    with segstore.open(partition, **SETTINGS) as log:
        log.abort_transaction(1)
        log.abort_transaction(2)
        assert log.open_transactions() == ()


def test_a_transaction_hangs_when_a_coordinator_had_ended_it():
    """[PSM-46] Kafka: transaction.max.timeout.ms, and five minutes."""
    transaction = OpenTransaction(1, 0, 10, start_timestamp=1_000_000)

    assert not transaction.is_hanging(1_000_000 + 20 * MINUTE_MS)
    assert transaction.is_hanging(1_000_000 + 20 * MINUTE_MS + 1)
    assert transaction.is_hanging(1_000_000 + 6 * MINUTE_MS + 1, max_timeout_ms=MINUTE_MS)


def test_the_commands_name_the_transaction(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: last stable offset, producer, epoch, first offset, since when."""
    assert run("ls", broker_log, "--json") == 0
    listed = json.loads(capsysbinary.readouterr().out)
    assert run("inspect", "-q", broker_log, "--json") == 0
    inspected = json.loads(capsysbinary.readouterr().out)

    for facts in (listed, inspected):
        assert (facts["last_stable_offset"], facts["log_end_offset"]) == (294, 336)
        (transaction,) = facts["open_transactions"]
        assert (transaction["producer_id"], transaction["producer_epoch"]) == (1, 0)
        assert (transaction["start_offset"], transaction["is_hanging"]) == (294, True)
    with segstore.open(broker_log, read_only=True) as log:
        first = next(record for record in log.scan(294))
    assert transaction["start_timestamp"] == first.timestamp

    assert run("ls", broker_log) == 0
    out, err = capsysbinary.readouterr()
    assert out.splitlines()[1].split()[-2:] == [b"294", b"1"]
    assert b"producer 1 (epoch 0) is open from offset 294 on, since 2025-" in err
    assert run("inspect", "-q", broker_log) == 0
    assert b"last stable offset: 294" in capsysbinary.readouterr().out
    run("verify", "-q", broker_log)
    assert b"producer 1 (epoch 0) is open from offset 294 on" in capsysbinary.readouterr().out


def test_cat_says_where_committed_records_end(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: on stderr, unless the range ends before; the exit code stays 0."""
    committed_only = ("--isolation", "read_committed")
    assert run("cat", broker_log, *committed_only) == 0
    assert b"committed records end at offset 294, and the log at 336" in (
        capsysbinary.readouterr().err
    )
    assert run("tail", broker_log, *committed_only) == 0
    assert b"committed records end at offset 294" in capsysbinary.readouterr().err
    for quiet in ((), *((*committed_only, *more) for more in (("-q",), ("-c", "5")))):
        assert run("cat", broker_log, *quiet) == 0
        assert capsysbinary.readouterr().err == b""


def test_a_young_transaction_is_no_reason_for_advice(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """A producer at work is named where its transaction ends the output, and left alone."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = segstore.MemoryRecords.with_records(
            [(time.time_ns() // 1_000_000, b"k", b"v")],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append_as_leader(producer)

    assert run("ls", path) == 0
    assert capsysbinary.readouterr().err == b""
    assert run("cat", path, "--isolation", "read_committed") == 0
    err = capsysbinary.readouterr().err
    assert b"committed records end at offset 0" in err
    assert b"abort-transaction" not in err


def test_an_operator_ends_a_transaction(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: `cat` names the command; it ends the transaction, once, and reads go on."""
    with segstore.open(broker_log, read_only=True) as log:
        everything = [one.offset for one in log.scan() if one.offset >= 294]
        of_producer = {
            record.offset
            for batch in log.scan(294).batches()
            if batch.producer_id == 1 and not batch.is_control
            for record in batch.records()
        }
    run("cat", broker_log, "--isolation", "read_committed")
    advice = capsysbinary.readouterr().err.decode().split("`")[1].split()
    assert advice[0] == "segstore"

    assert run(*advice[1:], "--producer-epoch", 0) == 0
    assert b"last stable offset was 294, now it is 337" in capsysbinary.readouterr().out
    read = [offset for offset in committed(broker_log) if offset >= 294]
    assert read == [offset for offset in everything if offset not in of_producer]
    assert run(*advice[1:]) == 1
    assert b"no open transaction of producer 1" in capsysbinary.readouterr().err
    assert run("verify", "-q", broker_log) == 0


def test_a_marker_has_the_epochs_of_its_transaction(partition: Path):
    """[PSM-17, PSM-18] Kafka's tool sends the producer's epoch, and its last coordinator's."""
    with segstore.open(partition, **SETTINGS) as log:
        before = {one.producer_id: one for one in log.active_producers()}
        info = log.abort_transaction(1)
        after = {one.producer_id: one for one in log.active_producers()}

        assert info.base_offset == 7
        assert after[1].producer_epoch == before[1].producer_epoch
        assert after[1].coordinator_epoch == before[1].coordinator_epoch
        assert after[1].current_txn_start_offset == -1
        assert [one.producer_id for one in log.open_transactions()] == [2]
        log.abort_transaction(2, producer_epoch=0)
        assert log.last_stable_offset == log.log_end_offset
    assert committed(partition) == [0, 6]


@pytest.mark.parametrize("which", [("--producer-id", 2), ("--start-offset", 2)])
def test_a_dry_run_writes_nothing(
    partition: Path, which: tuple[str, int], capsysbinary: pytest.CaptureFixture[bytes]
):
    """It names the transaction that it found by its producer or by its first offset."""
    before = files_of(partition)

    assert run("abort-transaction", partition, *which, "--dry-run") == 0
    assert b"producer 2, epoch 0, from offset 2 on would be aborted" in (
        capsysbinary.readouterr().out
    )
    assert files_of(partition) == before
    assert run("abort-transaction", partition, *which) == 0
    with segstore.open(partition, read_only=True) as log:
        assert [one.producer_id for one in log.open_transactions()] == [1]


@pytest.mark.parametrize(
    "which",
    [
        ("--producer-id", 3),
        ("--producer-id", 2, "--producer-epoch", 1),
        ("--start-offset", 3),
        ("--start-offset", 2, "--producer-epoch", 7),
    ],
)
def test_what_is_not_open_is_refused(partition: Path, which: tuple[str | int, ...]):
    """Exit code 1, and nothing is written."""
    before = files_of(partition)

    assert run("abort-transaction", partition, *which) == 1
    assert files_of(partition) == before


def test_a_handle_refuses_what_is_not_open(partition: Path):
    """[PSM-19] A marker without a transaction would do nothing; here it is an error."""
    with segstore.open(partition, **SETTINGS) as log:
        end = log.log_end_offset
        for arguments in ((3,), (2, 1)):
            with pytest.raises(segstore.InvalidTxnStateError):
                log.abort_transaction(*arguments)
        assert log.log_end_offset == end
    with (
        segstore.open(partition, read_only=True) as log,
        pytest.raises(segstore.LogReadOnlyError),
    ):
        log.abort_transaction(2)


def test_a_damaged_log_is_recovered_first(
    partition: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """What lies behind the damage may have ended the transaction."""
    log_file = partition / f"{4:020d}.log"
    data = bytearray(log_file.read_bytes())
    data[70] ^= 1
    log_file.write_bytes(data)
    before = files_of(partition)

    assert run("abort-transaction", partition, "--producer-id", 2) == 1
    assert b"segstore recover" in capsysbinary.readouterr().err
    assert files_of(partition) == before


def test_all_partitions_of_a_topic_are_named_by_it(tmp_path: Path):
    """A transaction goes over several partitions; those without it stay as they are."""
    for number in range(3):
        with segstore.open(tmp_path / f"orders-{number}", **SETTINGS) as log:
            write(log)
            producer = Producer(log, 5)
            producer.write()
            if number == 1:
                producer.end(ABORT)

    assert run("abort-transaction", tmp_path, "-t", "orders", "--producer-id", 5) == 0
    for number in range(3):
        with segstore.open(tmp_path / f"orders-{number}", read_only=True) as log:
            assert log.open_transactions() == ()
            assert log.log_end_offset == 3
