"""``segstore dump``: kafka-dump-log's text [format.md 18]; the worked examples of format.md 19."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from segstore import cli

if TYPE_CHECKING:
    from pathlib import Path

BATCH = bytes.fromhex(
    "0000000000000064 00000058 00000005 02 7d2ba2b8 0000 00000001 0000018bcfe56800 0000018bcfe56805"
    "0000000000000fa1 0003 0000000a 00000002"
    "1e 000000 046b31 047631 02 04683102 78"
    "2c 000a02 01 0a68656c6c6f 04 0a747261636501 04c3bc00"
)
COMMIT = bytes.fromhex(
    "0000000000000066 00000042 00000005 02 5c565746 0030 00000000 0000018bcfe5680a 0000018bcfe5680a"
    "0000000000000fa1 0003 ffffffff 00000001 20 000000 0800000001 0c000000000007 00"
)
LOG = "00000000000000000100.log"
BATCH_LINE = (
    "baseOffset: 100 lastOffset: 101 count: 2 baseSequence: 10 lastSequence: 11 producerId: 4001 "
    "producerEpoch: 3 partitionLeaderEpoch: 5 isTransactional: false isControl: false "
    "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000005 size: 100 magic: 2 "
    "compresscodec: none crc: 2100011704 isvalid: true\n"
)
COMMIT_LINE = (
    "baseOffset: 102 lastOffset: 102 count: 1 baseSequence: -1 lastSequence: -1 producerId: 4001 "
    "producerEpoch: 3 partitionLeaderEpoch: 5 isTransactional: true isControl: true "
    "deleteHorizonMs: OptionalLong.empty position: 100 CreateTime: 1700000000010 size: 78 magic: 2 "
    "compresscodec: none crc: 1549162310 isvalid: true\n"
)
RECORD_LINES = (
    "| offset: 100 CreateTime: 1700000000000 keySize: 2 valueSize: 2 sequence: 10 headerKeys: [h1] "
    "key: k1 payload: v1\n"
    "| offset: 101 CreateTime: 1700000000005 keySize: -1 valueSize: 5 sequence: 11 "
    "headerKeys: [trace,\u00fc] payload: hello\n"
)
MARKER_LINE = (
    "| offset: 102 CreateTime: 1700000000010 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
    "endTxnMarker: COMMIT coordinatorEpoch: 7\n"
)
HEAD = f"Dumping {LOG}\nLog starting offset: 100\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The segment of the worked examples."""
    (tmp_path / LOG).write_bytes(BATCH + COMMIT)
    (tmp_path / "00000000000000000100.index").write_bytes(bytes.fromhex("0000000200000064"))
    (tmp_path / "00000000000000000100.timeindex").write_bytes(
        bytes.fromhex("0000018bcfe5680a00000002")
    )
    return tmp_path


def test_a_short_read_is_not_the_end_of_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """[DUR-33] A call returns what lies before a bad page."""
    index = str(folder / LOG.replace("log", "index"))
    assert cli.main(["dump", "--files", index]) == 0
    expected, pread = capsys.readouterr().out, os.pread

    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, 3), at))
    assert cli.main(["dump", "--files", index]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("kind", ["index", "timeindex", "log"])
def test_a_page_that_cannot_be_read_is_named(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """[DUR-33] It ended in a traceback."""

    def pread(*_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", pread)
    file = folder / LOG.replace("log", kind)
    assert cli.main(["dump", "--files", str(file)]) == 1
    error = capsys.readouterr().err
    assert "ReadIOError" in error
    assert (
        f"{folder / LOG.split('.', maxsplit=1)[0]}." in error
    )  # a .timeindex is read with its .index


@pytest.fixture
def dump(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    """Run the command beside the segment; return exit code, stdout and stderr."""
    monkeypatch.chdir(folder)

    def run(files: str, *options: str) -> tuple[int, str, str]:
        code = cli.main(["dump", "--files", files, *options])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


def test_log_with_contents(folder: Path, dump):
    """[format.md 19.10] Captured from the 4.3.1 program."""
    code, out, err = dump(LOG, "--print-data-log")

    assert code == 0
    assert out == HEAD + BATCH_LINE + RECORD_LINES + COMMIT_LINE + MARKER_LINE
    assert err == f"Non-consecutive offsets in {folder}/{LOG}\n  -1 is followed by 100\n"


def test_log_without_records(dump):
    """[format.md 18.1] Batch lines only: consecutiveness is looked at by deep iteration."""
    assert dump(LOG) == (0, HEAD + BATCH_LINE + COMMIT_LINE, "")


def test_log_with_metadata_only(dump):
    """[format.md 18.2] ``--deep-iteration`` prints no keys and payloads."""
    _, out, _ = dump(LOG, "--deep-iteration")

    assert "| offset: 101" in out
    assert "payload" not in out


def test_log_with_contents_only(dump):
    """[format.md 18.2] ``--skip-record-metadata``: a control record leaves an empty line."""
    _, out, _ = dump(LOG, "--print-data-log", "--skip-record-metadata")

    assert out == f"{HEAD}{BATCH_LINE}| key: k1 payload: v1\n| payload: hello\n{COMMIT_LINE}\n"


def test_bytes_behind_the_last_batch_are_counted(folder: Path, dump):
    """[format.md 19.10] With the default of ``--max-bytes`` only."""
    (folder / LOG).write_bytes(BATCH + COMMIT + bytes(6))

    assert dump(LOG)[1].endswith(f"Found 6 invalid bytes at the end of {LOG}\n")
    assert dump(LOG, "--max-bytes", "120")[1] == HEAD + BATCH_LINE


def test_a_batch_with_a_wrong_crc_is_printed(folder: Path, dump):
    """[format.md 9.2] A dump shows what is there; nothing else ever hands out such a batch."""
    (folder / LOG).write_bytes(BATCH[:-1] + b"\x02" + COMMIT)

    _, out, _ = dump(LOG)

    assert out.count("isvalid: false") == 1
    assert out.count("isvalid: true") == 1


def test_a_file_is_read_in_pieces(dump, monkeypatch: pytest.MonkeyPatch):
    """[DUR-61] The window is smaller than a batch here."""
    monkeypatch.setattr("segstore.cli.batch_file.WINDOW_BYTES", 64)

    _, out, _ = dump(LOG, "--print-data-log")

    assert out == HEAD + BATCH_LINE + RECORD_LINES + COMMIT_LINE + MARKER_LINE


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ((8, b"\x00\x00\x00\x0d"), "Found record size 13 smaller than minimum record overhead"),
        ((8, b"\x00\x00\x00\x30"), "smaller than the minimum allowed overhead 61"),
        ((16, b"\xff"), "a message of magic -1"),
        ((22, b"\x05"), "unknown compression type 5"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_file_and_position(
    folder: Path, dump, damage: tuple[int, bytes], message: str
):
    """[DUR-85, DUR-95] Exit code 1."""
    position, data = damage
    broken = BATCH[:position] + data + BATCH[position + len(data) :]
    (folder / LOG).write_bytes(broken)

    code, out, err = dump(LOG)

    assert code == 1
    assert out == HEAD
    assert message in err
    assert f"{LOG}, position 0" in err


def test_an_incomplete_batch_ends_the_file(folder: Path, dump):
    """[format.md 9.1] Silently, but for the count of bytes."""
    (folder / LOG).write_bytes(BATCH + COMMIT[:40])

    assert dump(LOG)[1] == HEAD + BATCH_LINE + f"Found 40 invalid bytes at the end of {LOG}\n"


def test_indexes(dump):
    """[format.md 18.3, 18.4, 19.5] Entries, and nothing to complain about."""
    index, timeindex = "00000000000000000100.index", "00000000000000000100.timeindex"

    code, out, err = dump(f"{index},{timeindex}")

    assert (code, err) == (0, "")
    assert out == (
        f"Dumping {index}\noffset: 102 position: 100\n"
        f"Dumping {timeindex}\ntimestamp: 1700000000010 offset: 102\n"
    )
    assert dump(index, "--verify-index-only")[1] == f"Dumping {index}\n"
    assert dump(index, "--index-sanity-check")[1].endswith(f"{index} passed sanity check.\n")
    assert dump(timeindex, "--index-sanity-check")[1].endswith("passed sanity check.\n")


def test_an_empty_index_is_named(folder: Path, dump):
    """[format.md 18.3] Only the offset index says so."""
    (folder / "00000000000000000100.index").write_bytes(b"")
    (folder / "00000000000000000100.timeindex").write_bytes(b"")

    assert dump("00000000000000000100.index")[1].endswith("00000000000000000100.index is empty.\n")
    assert dump("00000000000000000100.timeindex")[1] == "Dumping 00000000000000000100.timeindex\n"


def test_index_problems_are_printed_at_the_end(folder: Path, dump):
    """[format.md 18.6] In this order, with absolute paths."""
    index, timeindex = (
        folder / "00000000000000000100.index",
        folder / "00000000000000000100.timeindex",
    )
    index.write_bytes(bytes.fromhex("0000000100000064"))
    timeindex.write_bytes(
        bytes.fromhex("0000018bcfe5680900000001 0000018bcfe5680900000002 0000018bcfe5680900000005")
    )

    code, _, err = dump(f"{timeindex.name},{index.name}")

    assert code == 0
    assert err == (
        f"Mismatches in :{index}\n  Index offset: 101, log offset: 102\n"
        f"Found timestamp mismatch in :{timeindex}\n"
        "  Index timestamp: 1700000000009, log timestamp: 1700000000010\n"
        f"Found out of order timestamp in :{timeindex}\n"
        "  Index timestamp: 1700000000009, Previously indexed timestamp: 1700000000009\n"
        f"The following indexed offsets are not found in :{timeindex}\n"
        "Indexed offset: 101, found log offset: 102\n"
        "Indexed offset: 105, found log offset: -1\n"
    )


def test_an_index_that_points_nowhere_ends_the_dump(folder: Path, dump):
    """[format.md 18.3] No batch begins there."""
    (folder / "00000000000000000100.index").write_bytes(bytes.fromhex("00000002000000b0"))

    code, _, err = dump("00000000000000000100.index")

    assert code == 1
    assert "entry 0 (offset 102) points at byte 176" in err


def test_producer_snapshot_and_transaction_index(folder: Path, dump):
    """[format.md 18.5, 19.5, 19.6]."""
    (folder / "1.snapshot").write_bytes(
        bytes.fromhex(
            "00010f5a42d200000001 0000000000000fa1 0003 0000000b 0000000000000065 00000001"
            "0000018bcfe56805 00000007 ffffffffffffffff"
        )
    )
    (folder / "1.txnindex").write_bytes(
        bytes.fromhex("0000 0000000000000fa1 0000000000000064 0000000000000067 0000000000000068")
    )

    assert dump("1.snapshot,1.txnindex,2.txnindex") == (
        0,
        (
            "Dumping 1.snapshot\nproducerId: 4001 producerEpoch: 3 coordinatorEpoch: 7 "
            "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1700000000005 "
            "firstSequence: 10 lastSequence: 11 lastOffset: 101 offsetDelta: 1 "
            "timestamp: 1700000000005\nDumping 1.txnindex\n"
            "version: 0 producerId: 4001 firstOffset: 100 lastOffset: 103 "
            "lastStableOffset: 104\nDumping 2.txnindex\n"
        ),
        "",
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"", "too few"),
        (bytes.fromhex("00020f5a42d200000000"), "unknown file version 2"),
        (bytes.fromhex("00010f5a42d200000001"), "1 entries in 10 bytes"),
        (bytes.fromhex("00010000000000000000"), "Stored crc: 0. Computed crc: 1214729159"),
    ],
)
def test_a_corrupt_snapshot_does_not_end_the_dump(folder: Path, dump, damage: bytes, message: str):
    """[format.md 14, 18.5] The reason is on stderr, the next file follows."""
    (folder / "1.snapshot").write_bytes(damage)

    code, out, err = dump("1.snapshot,2.txnindex")

    assert (code, out) == (0, "Dumping 1.snapshot\nDumping 2.txnindex\n")
    assert message in err


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            (
                "00000000000003d700000054000000140273b4ec6f0020000000000000018bcfe568000000018bcfe56800ff"
                "ffffffffffffffffffffffffff000000014400000008000000023000000000000103000000020000000003"
                "000200000002000000"
            ),
            (
                'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":2},{"voterId":3}],'
                '"grantingVoters":[{"voterId":2}]}'
            ),
        ),
        (
            (
                "0000000000000000000000470000000102c7ac78040020000000000000018bcfe568000000018bcfe56800ff"
                "ffffffffffffffffffffffffff000000012a00000008000000031600000000018bcfe568000000"
            ),
            'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1700000000000}',
        ),
        (
            (
                "00000000000000000000003f00000001028f6608e60020000000000000018bcfe568000000018bcfe56800ff"
                "ffffffffffffffffffffffffff000000011a00000008000000040600000000"
            ),
            'SnapshotFooter {"version":0}',
        ),
        (
            (
                "0000000000000000000000410000000102a89c55860020000000000000018bcfe568000000018bcfe56800ff"
                "ffffffffffffffffffffffffff000000011e00000008000000050a000000010000"
            ),
            'KRaftVersion {"version":0,"kRaftVersion":1}',
        ),
        (
            (
                "000000000000000000000074000000010214d134130020000000000000018bcfe568000000018bcfe56800ff"
                "ffffffffffffffffffffffffff00000001820100000008000000066e00000200000001000102030405060708"
                "090a0b0c0d0e0f020b434f4e54524f4c4c45520a6c6f63616c686f73742385000000000100000000"
            ),
            (
                'KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":'
                '"AAECAwQFBgcICQoLDA0ODw","endpoints":[{"name":"CONTROLLER","host":"localhost",'
                '"port":9093}],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}'
            ),
        ),
    ],
    ids=["leader change", "snapshot header", "snapshot footer", "version", "voters"],
)
def test_control_records_of_kraft(folder: Path, dump, data: str, text: str):
    """[format.md 6.3, 18.2, 19.7]."""
    name = "00000000000000000983-0000000020.checkpoint"
    (folder / name).write_bytes(bytes.fromhex(data))

    code, out, _ = dump(name, "--deep-iteration")

    assert code == 0
    assert out.startswith(f"Dumping {name}\nSnapshot end offset: 983, epoch: 20\n")
    assert out.endswith(f"headerKeys: [] {text}\n")
    assert "isvalid: true" in out


def test_bootstrap_checkpoint_has_its_own_line(folder: Path, dump):
    """[format.md 18.2]."""
    (folder / "bootstrap.checkpoint").write_bytes(b"")

    assert dump("bootstrap.checkpoint")[1].endswith("\nKRaft bootstrap snapshot\n")


def test_unknown_files_are_named_on_stderr(dump):
    """[format.md 18.1] A dump goes on with the next one; the list is split at commas only."""
    code, out, err = dump("a.txt,b, c.log//x.y")

    assert code == 0
    assert out == "Dumping a.txt\nDumping b\nDumping  c.log/x.y\n"
    assert err.splitlines() == [f"Ignoring unknown file {n}" for n in ("a.txt", "b", " c.log/x.y")]


def test_the_string_decoder_is_built_in(dump):
    """[format.md 18.1] Naming a decoder prints the contents; other classes cannot be loaded."""
    _, out, _ = dump(LOG, "--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder")

    assert "payload: hello" in out
    assert dump(LOG, "--key-decoder-class", "org.example.Decoder")[0] == 2


@pytest.mark.parametrize("name", ["x.log", "0.index", "missing.timeindex"])
def test_a_name_without_offset_or_file_is_usage(dump, name: str):
    """Exit code 2."""
    assert dump(name)[0] == 2


def test_golden_state_files(golden: Path, check_compared, dump, monkeypatch: pytest.MonkeyPatch):
    """[format.md 18.5] Every .snapshot and .txnindex; tests/interop compares the other files."""
    compared = 0
    wrong = []
    for expected in sorted(golden.glob("*/dump/*/*.txt")):
        name = expected.stem
        if not name.endswith((".snapshot", ".txnindex")):
            continue
        monkeypatch.chdir(expected.parents[2] / "data")
        _, out, err = dump(f"{expected.parent.name}/{name}")
        compared += 1
        if out.encode() != expected.read_bytes() or err:
            wrong.append(str(expected.relative_to(golden)))

    assert wrong == []
    check_compared(compared)
