"""docs/formats.md is right: each of our files is parsed by the tables that it has there.

Nothing of the formats is written here a second time. A text file's lines become regular
expressions by the table of types, and a binary file's rows become `struct` formats.
"""

from __future__ import annotations

import io
import json
import re
import struct
import uuid
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import segstore
from segstore._core import Directory, crc32c
from segstore.log.files.checkpoints import SYNC_FAILED_MARK, CleanedPart, LogState
from segstore.log.files.log_directory_checkpoints import MERGE_LOCK
from segstore.log.files.missing_records_file import MAX_RANGES, note_ranges, read_ranges
from segstore.log.files.partition_directory import future_directory_name
from segstore.log.files.partition_path import OWN_FILES
from segstore.log.files.topics_file import TOPICS_FILE, Arrival, format_topics, parse_topics
from segstore.log.recovery.restart_marker import RestartMarkerContent
from segstore.manager.shared_log_directory import MAINTENANCE_LOCK, TOPICS_LOCK
from segstore.types import EpochEntry, TopicPartition
from tests.tidy.project_files import ROOT

DOCUMENT = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
CHAPTERS = {
    chapter.partition("\n")[0]: chapter.partition("\n")[2] for chapter in DOCUMENT.split("\n## ")
}
KAFKAS = re.compile(
    r"\d{20}\.(?:log|index|timeindex|txnindex|snapshot)(?:\.deleted|\.cleaned|\.swap)?"
    r"|(?:leader-epoch|recovery-point-offset|log-start-offset)-checkpoint"
    r"|partition\.metadata|meta\.properties"
)
STRUCT = {"bytes": "s", "int16": "h", "int32": "i", "int64": "q", "uint32": "I"}


def tables(title: str) -> list[list[list[str]]]:
    """Rows of each table of a chapter, its head first; a cell is as it is typed."""
    lines = CHAPTERS[title].splitlines()
    found = [[*rows] for is_row, rows in groupby(lines, lambda line: line[:1] == "|") if is_row]
    return [
        [
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            for row in (rows[0], *rows[2:])
        ]
        for rows in found
    ]


def table(title: str, first: str) -> list[list[str]]:
    """Rows below the head whose first cell is *first*."""
    (rows,) = [rows for rows in tables(title) if rows[0][0] == first]
    return rows[1:]


def code(cell: str) -> str:
    """The first code span of a cell."""
    return re.findall(r"`([^`]+)`", cell)[0]


TYPES = {code(word): code(pattern) for word, _, pattern in table("Types", "word")}


def text_pattern(title: str) -> re.Pattern[str]:
    """A chapter's table of lines, as one expression for the whole file."""
    pattern = ""
    for line, count, _ in table(title, "line"):
        words = [TYPES.get(word, re.escape(word)) for word in code(line).split(" ")]
        one = rf"{words[0]}{''.join(f' (?:{word})' for word in words[1:])}"
        if "may be absent" in _:
            one = one.replace(f" (?:{words[-1]})", f"(?: (?:{words[-1]}))?")
        if "without numbers" in _:
            one = f"{words[0]}(?:{one.removeprefix(words[0])})?"
        first, last = re.fullmatch(r"(\d+)(?: (?:or|to) (\d+|any))?", count).groups()
        pattern += f"(?:{one}\n){{{first},{'' if last == 'any' else last or first}}}"
    return re.compile(pattern)


def check_text(title: str, data: bytes) -> None:
    """Every byte is in a line of the table, and the last line has the CRC of those before it."""
    assert text_pattern(title).fullmatch(data.decode("ascii")), data
    text, _, crc = data.rpartition(b"crc ")
    assert int(crc) == crc32c(text)


def example(title: str) -> bytes:
    """The indented lines of a chapter."""
    lines = re.findall(r"^ {4}(.*\n)", CHAPTERS[title], re.MULTILINE)
    return "".join(lines).encode()


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A log directory in which all that a writer leaves in ordinary use is left."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("a.b", partitions=2)
        manager.append("a.b", [(b"k", b"v")])
    path = tmp_path / "logs" / "a.b-0"
    with segstore.open(path, checksum_sidecar=True) as log:
        for _ in range(3):
            log.append([(b"key", bytes(70_000))])
            log.roll()
        log.write_checksum_sidecars()  # a close does not wait for those of a roll
    return tmp_path / "logs"


# ---- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        LogState(0, 0, None),
        LogState(7, 2**63 - 1, EpochEntry(3, 5)),
        LogState(7, 8, EpochEntry(3, 5), (None,), 12, is_being_emptied=True),
        LogState(7, 8, EpochEntry(3, 5), (EpochEntry(2, 4),)),
        LogState(7, 8, EpochEntry(3, 5), cleaned=CleanedPart(6, 2**32 - 1)),
        LogState(7, 8, None, generation=2**62 + 1),
    ],
)
def test_segstore_is_as_documented(state):
    check_text(".segstore", state.format())


def test_segstore_of_a_log_is_as_documented(log_directory):
    check_text(".segstore", (log_directory / "a.b-0" / ".segstore").read_bytes())


def test_examples_are_files_of_these_formats(tmp_path):
    """They are read as what they say."""
    check_text(".segstore", example(".segstore"))
    assert LogState.parse(example(".segstore")) == LogState(0, 0, EpochEntry(0, 0))
    check_text(".segstore.missing", example(".segstore.missing"))
    (tmp_path / ".segstore.missing").write_bytes(example(".segstore.missing"))
    with closing(Directory(str(tmp_path))) as directory:
        assert read_ranges(directory) == [(479, 615, 3)]
    assert [*parse_topics(example("topics.json")).topics] == ["a.b"]


@pytest.mark.parametrize("ranges", [[(479, 615, 3)], [(1, 2), (5, 9, -1)]])
def test_missing_ranges_are_as_documented(tmp_path, ranges):
    with closing(Directory(str(tmp_path))) as directory:
        note_ranges(directory, ranges)

    check_text(".segstore.missing", (tmp_path / ".segstore.missing").read_bytes())
    assert str(MAX_RANGES) in table(".segstore.missing", "line")[1][1]


def test_a_damaged_line_is_not_as_documented():
    """The expressions are no `.*`."""
    good = LogState(0, 0, EpochEntry(0, 0)).format()
    for bad in (good[:-1], good.replace(b"version 0", b"version 1"), good + b"crc 0\n"):
        with pytest.raises(AssertionError):
            check_text(".segstore", bad)


@pytest.mark.parametrize("names", [(), (f"{0:020d}.quarantine-1", f"{9:020d}.quarantine-2")])
def test_the_restart_marker_is_as_documented(names):
    data = RestartMarkerContent(1000, 60, names).format()

    check_text(".segstore.begins-anew", data)
    assert RestartMarkerContent.parse(data) is not None


# ---- JSON ----------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "null": lambda value: value is None,
    "number": lambda value: type(value) is int,
    "text": lambda value: isinstance(value, str),
    "pair": lambda value: [type(one) for one in value] == [int, int],
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def check_json(rows: list[list[str]], content: dict[str, Any]) -> None:
    """The keys of the table, in its order, each of a type that it names."""
    assert [*content] == [code(key) for key, *_ in rows]
    for (key, kinds, _), value in zip(rows, content.values(), strict=True):
        assert any(KINDS[kind](value) for kind in kinds.split(" or ")), key


def test_the_clean_shutdown_marker_is_as_documented(log_directory):
    data = (log_directory / "a.b-0" / ".kafka_cleanshutdown").read_bytes()
    content = json.loads(data)

    check_json(table(".kafka_cleanshutdown", "key"), content)
    crc = code(table(".kafka_cleanshutdown", "key")[-1][2]).replace("CRC", str(content["crc"]))
    assert crc32c(data.replace(crc.encode(), b"")) == content["crc"]


def test_the_marker_of_a_log_directory_is_as_documented(tmp_path):
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", partitions=1)

    found = (tmp_path / ".kafka_cleanshutdown").read_text()
    assert f"`{found}`" in CHAPTERS[".kafka_cleanshutdown"]


def test_topics_json_is_as_documented(log_directory):
    """Line by line, and the checksum of all lines but the last."""
    data = (log_directory / TOPICS_FILE).read_bytes()
    check_topics(data)
    key = TopicPartition("a.b", 5)
    arrivals = {key: Arrival(future_directory_name(key), "/disk1", 7)}
    directories = {uuid.UUID(int=5): "/disk1", uuid.UUID(int=6): "/disk2"}
    topics = parse_topics(data).topics
    check_topics(format_topics(topics, arrivals))
    check_topics(format_topics(topics, {}, directories))
    check_topics(format_topics(topics, arrivals, directories))


def check_topics(content: bytes) -> None:
    fields = {code(word): code(pattern) for word, _, pattern in table("topics.json", "field")}
    fields["CRC"] = TYPES["CRC"]

    def pattern(template: str) -> str:
        escaped = re.escape(template)
        return re.sub("|".join(fields), lambda word: f"(?:{fields[word.group()]})", escaped)

    rows = table("topics.json", "line")
    first, topic, begin, moved, known, directory, last = (pattern(code(row[1])) for row in rows)
    data = content.decode()
    moves = f"{begin}\n(?:{moved},\n)*{moved}\n"
    directories = f"{known}\n(?:{directory},\n)*{directory}\n"
    parts = f"(?:{topic},\n)*(?:{topic}\n)?(?:{moves})?(?:{directories})?"
    assert re.fullmatch(f"{first}\n{parts}{last}\n", data)
    lines = data.splitlines(keepends=True)
    assert re.search(r"\d+(?=}$)", lines[-1]).group() == str(crc32c("".join(lines[:-1]).encode()))


def test_redo_logs_and_staged_files_are_as_documented(tmp_path):
    pytest.importorskip("pyspark")
    from segstore.spark.commit_log import CommitLog, CommitRecord, PartitionPlan
    from segstore.spark.staged_file import STAGED_PREFIX, StagedBatch
    from segstore.spark.staged_write import StagedPart
    from segstore.types import TopicPartition

    part = StagedPart(f"{STAGED_PREFIX}a-{0:032x}", [StagedBatch(0, 70, 1)])
    plan = PartitionPlan(0, 5, [part])
    record = CommitRecord("etl", 3, "committing", {TopicPartition("a.b", 0): plan})
    with closing(Directory(str(tmp_path))) as directory:
        log = CommitLog(directory, "etl")
        log.write(record)
        content = json.loads((tmp_path / log.name).read_bytes())

    assert re.fullmatch(name_pattern(".segstore-commit-ID.json"), log.name)
    assert re.fullmatch(name_pattern(".segstore-staged-OWNER-HEX32"), part.file)
    check_json(table("Redo logs", "key"), content)
    check_json(table("Redo logs", "key of a plan"), content["partitions"]["a.b-0"])
    assert content["state"] in CHAPTERS["Redo logs"]


def test_job_results_are_as_documented(tmp_path, partition):
    pytest.importorskip("pyspark")
    from segstore.spark.job_state import JobState, directory_signature

    JobState(tmp_path / "state", "verify").keep(
        "orders-0", str(partition), directory_signature(str(partition)), {"problems": []}
    )

    (file,) = (tmp_path / "state").iterdir()
    assert file.name == "verify-orders-0.json"
    check_json(table("Job results", "key"), json.loads(file.read_text()))


def test_what_a_restore_notes_is_as_documented(packed_buckets, tmp_path):
    """Each file but this one, with its size."""
    case = packed_buckets / "leftovers"
    (report, _) = segstore.restore_bucket(case / "bucket", tmp_path / "data")
    directory = Path(report.path)
    content = json.loads((directory / ".segstore.restored").read_text())

    check_json(table(".segstore.restored", "key"), content)
    assert {name: size for name, (size, _) in content["files"].items()} == {
        path.name: path.stat().st_size
        for path in directory.iterdir()
        if path.name != ".segstore.restored"
    }


def test_an_export_is_as_documented(log_directory, tmp_path):
    """Its rows, its metadata, and a table of batches, which lies where the metadata say."""
    title = "Parquet files of an export"
    with segstore.open_dir(log_directory, read_only=True) as logs:
        files = [report.path for report in logs.export_parquet("a.b", tmp_path / "out")]
    for file in files:
        assert pq.read_schema(file).names == [code(row[0]) for row in table(title, "column")]
        for one, row in zip(pq.read_schema(file), table(title, "column"), strict=True):
            assert str(one.type) == code(row[1])
        content = json.loads(pq.read_metadata(file).metadata[b"segstore"])
        check_json(table(title, "key"), content)
        assert re.fullmatch(name_pattern("TOPIC-PARTITION-FROM-UNTIL.parquet"), Path(file).name)
        for position, size in content["batchTables"]:
            part = Path(file).read_bytes()[position : position + size]
            schema = pq.read_schema(io.BytesIO(part))
            rows = table(title, "column of a table")
            assert [(one.name, str(one.type)) for one in schema] == [
                (code(row[0]), code(row[1])) for row in rows
            ]


# ---- bytes ---------------------------------------------------------------------------------------


def test_sidecars_are_as_documented(log_directory):
    """Each field lies where the table says, after the one before it, to the end of the file."""
    _, path, *_ = sorted((log_directory / "a.b-0").glob("*.segsum"))
    data, log = path.read_bytes(), path.with_suffix(".log").read_bytes()
    values: dict[str, Any] = {}
    position = 0
    for offset, size, kind, name, told in table(".segsum", "offset"):
        blocks = -(-len(log) // values.get("block_bytes", 1))
        places = {"4": 4, "4 N": 4 * blocks, "36 + 4 N": 36 + 4 * blocks}
        first, length = places.get(offset) or int(offset), places.get(size) or int(size)
        assert first == position, name
        count = 1 if kind == "bytes" else length // struct.calcsize(STRUCT[kind])
        found = struct.unpack_from(
            f">{length if kind == 'bytes' else count}{STRUCT[kind]}", data, first
        )
        values[code(name)] = found if size == "4 N" else found[0]
        fixed = re.fullmatch(r"`?(\w+)`?", told)
        assert fixed is None or str(found[0]).removeprefix("b").strip("'") == fixed[1], name
        position += length

    assert position == len(data)
    step = values["block_bytes"]
    assert len(log) > step
    assert values["checksums"] == tuple(
        crc32c(log[start : start + step]) for start in range(0, len(log), step)
    )
    assert values["checksum"] == crc32c(data[:-4])
    assert (values["base_offset"], values["size_bytes"]) == (int(path.stem), len(log))


def test_a_quarantine_file_has_the_bytes_that_were_cut(partition):
    """From the first byte that recovery cut, up to 4,096 zeros at the end among them."""
    (active,) = partition.glob(f"{40:020d}.log")
    (partition / ".kafka_cleanshutdown").unlink()
    cut = b"\1" * 100 + bytes(5000)
    with active.open("ab") as file:
        file.write(cut)
    segstore.open(partition).close()

    (kept,) = partition.glob("*.quarantine-*")
    assert re.fullmatch(name_pattern("BASE.quarantine-N"), kept.name)
    zeros = int(re.search(r"up to ([\d,]+) of the zeros", DOCUMENT)[1].replace(",", ""))
    assert kept.read_bytes() == cut[: 100 + zeros]


# ---- all files -----------------------------------------------------------------------------------


def name_pattern(name: str) -> str:
    """A name of the table of all files, as an expression."""
    words = {
        "BASE": r"\d{20}",
        "HEX32": "[0-9a-f]{32}",
        "HASH": "[0-9a-f]{64}",
        "OWNER": ".+",
        "JOB": ".+",
        "KEY": ".+",
        "NAME": ".+",
        "ID": "[0-9a-f]{16}",
        "N": "[1-9][0-9]*",
        "TOPIC": ".+",
        "PARTITION": "[0-9]+",
        "FROM": r"\d{20}",
        "UNTIL": r"\d{20}",
    }
    pattern = "|".join(rf"(?<![A-Z]){word}(?![A-Z])" for word in words)
    return re.sub(pattern, lambda match: words[match.group()], re.escape(name))


def documented_names() -> re.Pattern[str]:
    rows = table("All files", "name")
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    return re.compile("|".join(map(name_pattern, names)))


def test_every_file_of_a_log_directory_is_documented(log_directory):
    """What is not Kafka's is in the table of all files."""
    names = {path.name for path in log_directory.rglob("*") if path.is_file()}

    ours = {name for name in names if not KAFKAS.fullmatch(name)}
    assert {".segstore", ".lock", "topics.json", f"{0:020d}.segsum"} <= ours
    assert {name for name in ours if not documented_names().fullmatch(name)} == set()


def test_every_name_that_the_code_has_is_documented():
    locks = {MERGE_LOCK, TOPICS_LOCK, MAINTENANCE_LOCK}
    names = {*OWN_FILES, *locks, SYNC_FAILED_MARK, TOPICS_FILE} - {"lost+found"}

    ours = {name for name in names if not KAFKAS.fullmatch(name)}
    assert {name for name in ours if not documented_names().fullmatch(name)} == set()


def test_every_row_leads_to_its_chapter():
    """By the anchor that is made of the chapter's title."""
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in CHAPTERS}

    links = [
        link for row in table("All files", "name") for link in re.findall(r"#([\w-]+)", row[0])
    ]
    assert len(links) == len(table("All files", "name"))
    assert {link for link in links if link not in anchors} == set()
