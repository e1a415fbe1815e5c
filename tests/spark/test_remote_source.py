"""``format("segstore")`` at a URL: what a local path gives, and what is refused."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("obstore")
pytest.importorskip("fsspec")

import segstore
from segstore.spark.conditions import ConnectorConditionError, ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.jobs import export_parquet, import_parquet, verify
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.options import parse_options
from segstore.spark.record_count import count_range
from segstore.spark.sink_options import parse_sink_options
from tests.kits.remote_directories import upload
from tests.kits.s3_server import SECRET, served


@pytest.fixture
def directory(tmp_path):
    """Two topics: ``orders-0`` of 1000 records in 10 segments, ``notes-0`` of one."""
    directory = tmp_path / "data"
    directory.mkdir()
    with segstore.open(directory / "orders-0", durability="none") as log:
        for number in range(10):
            if number:
                log.roll()
            log.append([(b"key", b"%d" % index) for index in range(100)])
    with segstore.open(directory / "notes-0", durability="none") as log:
        log.append([(None, b"a note")])
    return directory


@pytest.fixture
def at_url(directory, tmp_path):
    """Options of a copy of the directory at a URL."""
    return {"path": upload(directory), "spooldirectory": str(tmp_path / "spool")}


def source_of(options, **more):
    chosen = {"subscribe": "orders"} if "subscribepattern" not in more else {}
    return SegstoreDataSource({**chosen, **options, **more})


def rows(options, **more):
    """Plan, pickle as Spark does, and read."""
    source = source_of(options, **more)
    reader = source.reader(source.schema())
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [
        row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()
    ], len(partitions)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subscribepattern": ".*"},
        {"minpartitions": "7"},
        {"kafka.isolation.level": "read_committed"},
        {"isolation.level": "durable"},
        {"startingoffsets": '{"orders":{"0":333}}', "endingoffsets": '{"orders":{"0":444}}'},
        {"startingtimestamp": "1"},
        {"failondataloss": "false", "endingoffsets": '{"orders":{"0":5000}}'},
        {"kind": "batches", "startingoffsets": '{"orders":{"0":333}}'},
        {"kind": "epochs"},
        {"kind": "producers"},
        {"kind": "transactions"},
    ],
    ids=str,
)
def test_a_url_gives_what_the_path_gives(directory, at_url, more):
    assert rows(at_url, **more) == rows({"path": str(directory)}, **more)


def test_segments_are_named_by_their_urls(directory, at_url):
    here, there = rows({"path": str(directory)}, kind="segments"), rows(at_url, kind="segments")
    for one in (*here[0], *there[0]):
        one["file"] = one["file"].rpartition("/data/")[2].removeprefix(f"{at_url['path']}/")
        one["modified"] = None  # when it was uploaded
    assert there == here


def test_bytes_cut_between_segments_without_reading_one(at_url, directory):
    """And inside one that is larger."""
    size = (directory / "orders-0" / f"{0:020d}.log").stat().st_size
    found, partitions = rows(at_url, maxbytesperpartition=str(2 * size))
    assert [row["offset"] for row in found] == list(range(1000))
    assert partitions in {5, 6}
    assert rows(at_url, maxbytesperpartition=str(size // 2 + 1)) == (found, 20)


def test_counts_and_conditions_take_the_same_door(at_url):
    options = options_of_call(at_url["path"], {"spooldirectory": at_url["spooldirectory"]})
    ranges = ranges_of(options)

    assert {one.topic: count_range(options, one) for one in ranges} == {"orders": 1000, "notes": 1}


def test_offsets_that_are_gone_are_data_loss(directory, at_url):
    source = source_of(at_url)
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    with segstore.open(directory / "orders-0") as log:
        log.delete_records(450)
    upload(directory, at_url["path"])

    with pytest.raises(
        ConnectorConditionError, match=r"COULD_NOT_READ.*\[0, 1000\).*\[450, 1000\)"
    ):
        list(reader.read(partitions[0]))
    lenient = source_of(at_url, failondataloss="false")
    reader = lenient.reader(lenient.schema())
    found = [row for batch in reader.read(partitions[0]) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(450, 1000))


def test_a_stream_follows_a_log_that_grows_at_its_url(directory, at_url):
    """From what was uploaded before one trigger to what was before the next."""
    source = source_of(at_url, startingoffsets="earliest")
    stream = source.streamReader(source.schema())
    start = stream.initialOffset()
    assert start == {"orders": {"0": 0}}
    seen = []
    with segstore.open(directory / "orders-0", durability="none") as log:
        for _ in range(3):
            end = latest(stream, start)
            for one in stream.partitions(start, end):
                seen += [row["offset"] for batch in stream.read(one) for row in batch.to_pylist()]
            start = end
            log.append([(b"k", b"v")] * 50)
            log.roll()
            upload(directory, at_url["path"])
    stream.stop()

    assert seen == list(range(1100))


def latest(stream, start):
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable
    except ImportError:  # Spark 4.0 and 4.1
        return stream.latestOffset()
    return stream.latestOffset(start, ReadAllAvailable())


# ---- what is refused -----------------------------------------------------------------------------


def test_nothing_is_written_to_a_url(at_url, tmp_path):
    """Nor worked on in place; a message names neither query nor password."""
    url = "s3://id:password@bucket/logs?sig=password"
    for work in (
        lambda: parse_sink_options({"path": url, "topic": "t"}),
        lambda: verify(None, url),
        lambda: export_parquet(None, url, tmp_path),
        lambda: import_parquet(None, tmp_path, url),
    ):
        with pytest.raises(
            ConnectorOptionError, match=r"local disk.*s3://id:\*\*\*@bucket"
        ) as caught:
            work()
        assert "password" not in str(caught.value)
    with pytest.raises(ConnectorOptionError, match="writing needs"):
        source_of(at_url).writer(None, overwrite=False)


def test_a_path_stays_a_path(directory):
    """``file:`` goes the local way."""
    for path in (f"file:{directory}", f"file://{directory}"):
        options = parse_options({"path": path, "subscribe": "orders"})
        assert options.absolute_path == str(directory)
        assert not options.is_remote


def test_what_is_not_installed_is_named(monkeypatch, at_url):
    monkeypatch.setattr("segstore.remote.stores.find_spec", lambda _: None)
    for url, package in (("s3://b/l", "obstore"), ("memory://other", "fsspec")):
        with pytest.raises(ImportError, match=rf"{package}: pip install 'segstore\[remote\]'"):
            source_of(at_url, path=url).schema()


def test_a_package_of_a_scheme_is_named(at_url):
    """The words are fsspec's."""
    with pytest.raises(ImportError, match=r"oci:// needs a package.*ocifs"):
        source_of(at_url, path="oci://bucket/logs").schema()
    with pytest.raises(ValueError, match="foo"):
        source_of(at_url, path="foo://bucket/logs").schema()


def test_options_show_no_setting_of_a_store():
    options = parse_options(
        {"path": "s3://b/l", "subscribe": "t", "remote.secret_access_key": SECRET}
    )
    assert options.remote.store == {"secret_access_key": SECRET}
    assert SECRET not in repr(options)


# ---- with Spark ----------------------------------------------------------------------------------


def test_spark_reads_a_bucket(spark, directory, tmp_path, capfd):
    """Batch, count, and a function with a condition; no plan shows a secret."""
    import segstore.spark

    with served() as store:
        store.put(directory)
        remote = {f"remote.{name}": value for name, value in store.settings.items()}
        options = {**remote, "spoolDirectory": str(tmp_path / "spool"), "subscribe": "orders"}
        frame = spark.read.format("segstore").options(path="s3://bucket/logs", **options).load()
        assert frame.where("offset >= 950").count() == 50
        assert segstore.spark.count(spark, "s3://bucket/logs", **options) == 1000
        found = segstore.spark.read(
            spark, "s3://bucket/logs", ["offset"], "offset BETWEEN 205 AND 207", **options
        )
        assert [row.offset for row in found.collect()] == [205, 206, 207]
        frame.explain(extended=True)
        found.explain(extended=True)
    assert SECRET not in "".join(capfd.readouterr())
