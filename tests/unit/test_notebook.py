"""What a notebook shows: short, well-formed, no markup of a name or a value, and never an error."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

import segstore
from segstore import Record
from segstore.notebook import MOST_LINES, as_html, first_records, text_as_html

EVIL = "<script>alert(1)</script>"
TAGS = {"table", "caption", "tr", "th", "td", "pre"}


class _Reader(HTMLParser):
    """Collects texts, and fails where tags do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the parser's call
        assert tag in TAGS
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(obj) -> str:
    """The text of what a notebook shows."""
    reader = _Reader()
    reader.feed(obj._repr_html_())
    reader.close()
    assert reader.open == []
    return "\n".join(reader.texts)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / EVIL.replace("/", "_")
    folder.mkdir()
    return folder


@pytest.fixture
def logs(folder):
    with segstore.open_dir(folder, durability="none") as logs:
        logs.create_topic("orders", 2)
        record = Record(
            key=EVIL.encode(),
            value=b"\x00\xff",
            headers=[(EVIL, b"h")],
            timestamp=1_735_689_600_000,
        )
        logs.append("orders", [record, (b"k", b"v" * 100_000), (None, None)], partition=0)
        yield logs


def test_a_log_shows_where_it_ends_and_its_first_records(logs):
    log = logs.log("orders", 0)
    text = shown(log)

    assert "offsets 0 to 3" in text
    assert str(log.path) in text
    assert EVIL in text  # as text
    assert "2025-01-01 00:00:00.000+00:00" in text
    assert r"b'\x00\xff'" in text
    assert "null" in text
    assert len(text) < 2000


def test_a_manager_shows_its_topics(logs):
    text = shown(logs)

    assert "orders" in text
    assert "1 topic, 2 partitions" in text


@pytest.mark.parametrize("order", ["partition", "timestamp"])
def test_scans_show_ranges_and_first_records(logs, order):
    scan = logs.scan("orders", order=order)
    text = shown(scan)
    assert "0 to 3" in text
    assert EVIL in text
    assert "first records" in text

    part = shown(logs.log("orders", 0).select("offset", "key"))
    assert "offset, key" in part
    assert "vvv" not in part


def test_last_values_and_single_files_are_shown(logs):
    assert "key" in shown(logs.latest("orders"))
    log = logs.log("orders", 0)
    log.flush()
    with segstore.open_segment(log.segments()[0].path) as segment:
        assert EVIL in shown(segment)


def test_reports_are_shown_as_they_print(logs):
    log = logs.log("orders", 0)
    for report in (log.verify(), log.report, logs.maintain()):
        assert shown(report).strip() == str(report).strip()
    assert "Report" not in shown(logs.maintain())


def test_what_is_closed_is_shown_as_closed(logs):
    log = logs.log("orders", 0)
    scan, topic = log.scan(), logs.scan("orders")
    logs.close()

    for one in (log, scan, topic, logs):
        assert "closed" in shown(one)


def test_a_damaged_log_shows_its_error(logs):
    log = logs.log("orders", 1)
    log.append([(b"k", b"v" * 50)])
    log.flush()
    path = Path(log.segments()[0].path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    assert "not shown" in shown(log.scan())


def test_first_records_are_looked_for_in_a_part_alone(tmp_path):
    """A notebook shows a scan whenever a cell ends with it."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(1000 + n, None, b"%d" % n) for n in range(5000)])
        text = shown(log.scan(start_timestamp=1000 + 4999))

        assert "none" in text
        assert "b'4" not in text


def test_what_a_topic_was_given_is_shown(logs):
    """Its text had 8 KB."""
    logs.create_topic("kept", 3, config={"retention.ms": 5})
    topic = logs.describe_topic("kept")

    assert "retention.ms\n5\ntopic" in shown(topic)
    assert re.fullmatch(r"TopicDescription\('kept', 3 partitions, \d+ settings\)", repr(topic))


def test_datasets_and_reports_of_parquet_are_shown(logs, tmp_path):
    dataset = logs.dataset("orders").filter(pa.compute.field("offset") > 1)
    exported = segstore.export_parquet(logs.log("orders", 0), tmp_path / "orders-0.parquet")
    (imported,) = segstore.import_parquet(tmp_path / "orders-0.parquet", tmp_path / "copy-0")

    assert "offset\nint64" in shown(dataset)
    assert "offset > 1" in shown(dataset)
    assert "records=3" in shown(exported)
    assert "log_end_offset=3" in shown(imported)


class _Many:
    def __init__(self, count, error=None):
        self._count, self._error = count, error

    @as_html
    def _repr_html_(self):
        yield "rows", [{"n": str(n)} for n in range(self._count)]
        if self._error is not None:
            raise self._error

    def __repr__(self):
        return "x" * 10_000

    def __str__(self):
        return "\n".join(map(str, range(self._count)))


def test_much_is_shown_in_part():
    many = _Many(1000)

    assert "... (1000)" in shown(many)
    assert len(shown(many)) < 1000
    assert text_as_html(many).count("\n") == MOST_LINES
    assert "1000 lines" in text_as_html(many)


def test_errors_of_logs_are_shown_and_others_are_raised():
    assert "disk" in shown(_Many(1, OSError("disk <1>")))
    with pytest.raises(ZeroDivisionError):
        shown(_Many(1, ZeroDivisionError()))


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(None, ""), (-1, ""), (0, "1970-01-01 00:00:00.000+00:00"), (2**62, 2**62)],
)
def test_any_timestamp_is_shown(timestamp, expected):
    rows = first_records([Record(value=b"", timestamp=timestamp)], ["timestamp"])

    assert rows == [{"timestamp": expected}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é".encode() * 41, "é" * 40),
        (b"a\xff", "b'a\\xff'"),
        (b"a\nb", "b'a\\nb'"),
        (b"", ""),
        (None, "null"),
    ],
)
def test_bytes_are_shown_as_text_where_they_are_some(value, expected):
    assert str(first_records([Record(value=value)], ["value"])[0]["value"]).startswith(expected)
