"""``append``, ``cat`` and ``tail``: records in, records out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from tests.kits.cli_process import environment
from tests.kits.records_kit import build
from tests.kits.transactions_kit import COMMIT, Producer
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Ten records, a second apart."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        log.append(
            [(1700000000000 + 1000 * n, b"k%d" % n, b"v%d" % n) for n in range(9)]
            + [segstore.Record(headers=[("h", b"1"), ("n", None)], timestamp=1700000009000)]
        )
    return path


@pytest.fixture
def cat(capfdbinary: pytest.CaptureFixture[bytes]):
    """Run ``cat`` in this process; return its stdout, which must come without a word on stderr."""

    def run(*arguments: object) -> bytes:
        assert cli.main(["cat", *map(str, arguments)]) == 0
        out, err = capfdbinary.readouterr()
        assert err == b""
        return out

    return run


# ---- cat ---------------------------------------------------------------------------------------


def test_values_are_printed_a_line_each(partition: Path, cat):
    """As kcat does without options; a null is empty, or NULL with -Z."""
    lines = [b"v%d\n" % n for n in range(9)]

    assert cat(partition) == b"".join(lines) + b"\n"
    assert cat(partition, "-Z") == b"".join(lines) + b"NULL\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-o", "7"], [7, 8, 9]),
        (["-o", "beginning", "-c", "2"], [0, 1]),
        (["-o", "end"], []),
        (["-o", "-2"], [8, 9]),
        (["-o", "s@1700000007500"], [8, 9]),
        (["-o", "s@1700000003000", "-o", "e@1700000005000"], [3, 4]),
        (["-c", "0"], []),
        (["-c3"], [0, 1, 2]),
    ],
)
def test_offsets_and_counts_choose_records(
    partition: Path, cat, options: list[str], expected: list[int]
):
    """``-o`` by offset, from the end, by time; ``-c`` stops."""
    assert cat(partition, *options, "-f", "%o ").split() == [b"%d" % n for n in expected]


def test_keys_and_delimiters(partition: Path, cat):
    """``-K`` prints the key, ``-D`` ends a record."""
    assert cat(partition, "-K:", "-D;", "-c2") == b"k0:v0;k1:v1;"


def test_json_lines_hold_every_field(partition: Path, cat):
    """The fields of golden records/*.jsonl."""
    last = cat(partition, "--format", "jsonl").splitlines()[-1]

    assert (
        last
        == (
            b'{"offset":9,"timestamp":1700000009000,"timestampType":"CreateTime","leaderEpoch":null,'
            b'"key":null,"value":null,"headers":[["h","MQ=="],["n",null]]}'
        )
        or json.loads(last)["leaderEpoch"] == 0
    )
    assert json.loads(cat(partition, "-J", "-c1"))["payload"] == "v0"


def test_the_end_is_named_only_on_request(partition: Path, capfdbinary):
    """``-e``, unless ``-q``."""
    cli.main(["cat", str(partition), "-e"])
    assert capfdbinary.readouterr().err == b"% Reached end of topic orders [0] at offset 10\n"
    cli.main(["cat", str(partition), "-e", "-q"])
    assert capfdbinary.readouterr().err == b""


def test_what_is_good_is_printed_before_damage(partition: Path, capfdbinary):
    """[DUR-79] Exit code 1, and an error that names the place."""
    with segstore.open(partition, durability="none") as log:
        log.append([(1700000010000, b"k", b"later")])
    file = partition / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[-3] ^= 0xFF
    file.write_bytes(bytes(data))

    code = cli.main(["cat", str(partition)])

    out, err = capfdbinary.readouterr()
    assert code == 1
    assert out.startswith(b"v0\nv1\n")
    assert b"later" not in out
    assert b"offset 10" in err


def test_a_topic_is_all_its_partitions(tmp_path: Path, cat):
    """``-t``, and ``-p`` for one of them."""
    for number in (10, 2):
        with segstore.open(tmp_path / f"orders-{number}", durability="none") as log:
            log.append([(None, b"%d" % number)])

    assert cat(tmp_path, "-t", "orders", "-f", "%p:%s ") == b"2:2 10:10 "
    assert cat(tmp_path, "-t", "orders", "-p", "10") == b"10\n"
    assert cat(tmp_path, "-t", "orders", "-c", "1", "-f", "%p") == b"2"


# ---- append ------------------------------------------------------------------------------------


def records_of(path: Path) -> list[tuple[bytes | None, bytes | None]]:
    with segstore.open(path, read_only=True) as log:
        return [(record.key, record.value) for record in log]


@pytest.mark.parametrize(
    ("options", "stdin", "expected"),
    [
        ([], b"a\nb\n", [(None, b"a"), (None, b"b")]),
        ([], b"a\nlast", [(None, b"a"), (None, b"last")]),
        ([], b"", []),
        ([], b"a\n\nb\n", [(None, b"a"), (None, b""), (None, b"b")]),
        (["-Z"], b"a\n\n", [(None, b"a"), (None, None)]),
        (["-K:"], b"k:v:w\nnone\n:v\n", [(b"k", b"v:w"), (None, b"none"), (b"", b"v")]),
        (["-K:", "-Z"], b":v\nk:\n", [(None, b"v"), (b"k", None)]),
        (["-k", "key"], b"v\n", [(b"key", b"v")]),
        (["-D;"], b"a;b\n;", [(None, b"a"), (None, b"b\n")]),
        (["-K\\t", "-D\\0"], b"k\tv\0l\tw", [(b"k", b"v"), (b"l", b"w")]),
        ([], b"\xff\x00\n", [(None, b"\xff\x00")]),
    ],
)
def test_lines_become_records(
    tmp_path: Path,
    options: list[str],
    stdin: bytes,
    expected: list[tuple[bytes | None, bytes | None]],
):
    """kcat's producer options."""
    done = run_warm("append", tmp_path / "notes-0", *options, stdin=stdin)

    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert records_of(tmp_path / "notes-0") == expected


def test_the_summary_names_offsets(tmp_path: Path):
    """On stderr, none with -q."""
    first = run_warm("append", tmp_path / "notes-0", stdin=b"a\nb\n")
    second = run_warm("append", tmp_path / "notes-0", "-q", stdin=b"c\n")

    assert first.stderr.startswith(b"appended 2 records, ")
    assert first.stderr.endswith(b": notes-0 offsets 0 to 1\n")
    assert second.stderr == b""


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_and_headers(tmp_path: Path, codec: str):
    """``-z`` and ``-H``; without ``=`` a header is null."""
    path = tmp_path / "notes-0"

    done = run_warm("append", path, "-z", codec, "-H", "a=1=2", "-H", "b", stdin=b"v\n" * 50)

    assert done.returncode == 0, done.stderr
    with segstore.open(path, read_only=True) as log:
        assert {record.headers for record in log} == {(("a", b"1=2"), ("b", None))}
        (batch,) = log.scan().batches()
        assert batch.codec.name.lower() == codec


def test_json_lines_go_round(partition: Path, tmp_path: Path):
    """What ``cat --format jsonl`` prints, ``append --format jsonl`` reads."""
    lines = run_warm("cat", partition, "--format", "jsonl").stdout

    done = run_warm("append", tmp_path / "copy-0", "--format", "jsonl", stdin=lines)

    assert done.returncode == 0, done.stderr
    assert run_warm("cat", tmp_path / "copy-0", "--format", "jsonl").stdout == lines


@pytest.mark.parametrize(
    "line", [b"[]", b"{", b'{"value":1}', b'{"value":"?"}', b'{"key":null,"headers":[1]}']
)
def test_a_bad_json_line_is_usage(tmp_path: Path, line: bytes):
    """Exit code 2, and the line is quoted; what came in earlier reads stays."""
    done = run_warm("append", tmp_path / "notes-0", "--format", "jsonl", stdin=line + b"\n")

    assert done.returncode == 2
    assert b"not a line of --format jsonl" in done.stderr


def test_a_topic_gets_its_partitions_by_key(tmp_path: Path):
    """``-t`` with ``--partitions``: Kafka's partitioner; ``-p`` names one."""
    lines = b"".join(b"key-%d:value\n" % n for n in range(40))

    done = run_warm("append", tmp_path, "-t", "topic", "--partitions", "4", "-K:", stdin=lines)
    fixed = run_warm("append", tmp_path, "-t", "topic", "-p", "3", stdin=b"fixed\n")

    assert done.returncode == fixed.returncode == 0, done.stderr + fixed.stderr
    for number in range(4):
        keys = [key for key, _ in records_of(tmp_path / f"topic-{number}") if key is not None]
        assert keys
        assert {segstore.partition_for_key(key, 4) for key in keys} == {number}
    assert records_of(tmp_path / "topic-3")[-1] == (None, b"fixed")


def test_settings_are_kafkas_keys(tmp_path: Path):
    """``-X``; an unknown durability or setting value is usage."""
    path = tmp_path / "notes-0"

    done = run_warm("append", path, "-X", "message.timestamp.type=LogAppendTime", stdin=b"v\n")

    assert done.returncode == 0, done.stderr
    assert b"LogAppendTime" in run_warm("cat", path, "--format", "jsonl").stdout
    assert run_warm("append", path, "-X", "segment.bytes=1", stdin=b"v\n").returncode == 2
    assert run_warm("append", path, "--durability", "always", stdin=b"v\n").returncode == 2


def test_a_second_writer_gets_a_clear_error(partition: Path):
    """[DUR-65] Exit code 1; nothing is appended."""
    with segstore.open(partition, durability="none"):
        done = run_warm("append", partition, stdin=b"v\n")

    assert done.returncode == 1
    assert b"LogLockedError" in done.stderr


# ---- tail --------------------------------------------------------------------------------------


def test_tail_prints_the_last_records(partition: Path):
    """``-n``, with the output options of cat."""
    last = run_warm("tail", partition, "-n", "2", "-Z")

    assert last.stdout == b"v8\nNULL\n"
    assert run_warm("tail", partition, "-n", "0").stdout == b""
    assert len(run_warm("tail", partition, "--template", "%o\\n").stdout.splitlines()) == 10


def test_tail_finds_records_behind_gaps(golden_of):
    """Compaction and markers leave offsets without a record: the last N are records."""
    path = golden_of("compacted")[-1].directory
    records = run_warm("cat", path, "--format", "jsonl").stdout.splitlines()

    last = run_warm("tail", path, "-n", "20", "--format", "jsonl")

    assert last.stdout.splitlines() == records[-20:]


def test_tail_follows_another_process(partition: Path):
    """``-f``: records appear while their writer is still open; Ctrl-C ends it quietly with 130."""
    command = [sys.executable, "-m", "segstore", "tail", "-f", str(partition), "-n", "1", "-K:"]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        ) as follower,
        segstore.open(partition, durability="none") as log,
    ):
        assert follower.stdout is not None
        assert follower.stdout.readline() == b":\n"
        for number in range(3):
            log.append([(b"new", b"%d" % number)])
            assert follower.stdout.readline() == b"new:%d\n" % number
            time.sleep(0.02)
        log.roll()
        log.append([(b"new", b"in another segment")])
        assert follower.stdout.readline() == b"new:in another segment\n"
        follower.send_signal(2)
        rest, err = follower.communicate(timeout=30)

    assert follower.returncode == 130
    assert (rest, err) == (b"", b"")


def test_tail_stops_after_a_count(partition: Path):
    """``-c`` with ``-f``."""
    done = run_warm("tail", "-f", partition, "-n", "5", "-c", "3", "--template", "%o\\n")

    assert (done.returncode, done.stdout) == (0, b"5\n6\n7\n")


def test_times_bound_records_and_not_markers(tmp_path: Path, capfdbinary):
    """A marker has the broker's clock: nothing was printed of records that are older."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for number in range(4):
            batch = build(
                [(0, 1000 + number, b"k", b"v")],
                producer_id=number,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            log.append_as_leader(batch, 0)
            Producer(log, number).end(COMMIT)
        assert log.offset_for_timestamp(1002) == 1  # the first marker, as in Kafka
        assert next(iter(log.scan(start_timestamp=1002))).offset == 4
    times = ["-o", "s@1001", "-o", "e@1003"]
    for one in (path, path / "*.log"):
        assert cli.main(["cat", str(one), *times, "-f", "%o "]) == 0
        assert capfdbinary.readouterr() == (b"2 4 ", b"")
    assert cli.main(["verify", str(path)]) == 0
    assert b"8 batches, 4 records, " in capfdbinary.readouterr().out
    assert cli.main(["inspect", str(path)]) == 0
    assert b"records: 4 in 8 batches" in capfdbinary.readouterr().out
