"""``option("layout", "tiered")`` gives what the same records in a log directory give."""

from __future__ import annotations

import json
import os
import pickle
import shutil

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("Crypto")
pytest.importorskip("pyarrow")

import segstore
from segstore.errors import CorruptLogError, EncryptionKeyError, LogNotFoundError, SegstoreError
from segstore.remote.local_folder import LocalFolder
from segstore.spark.conditions import ConnectorConditionError, ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.options import parse_options
from segstore.spark.record_count import count_range
from segstore.spark.sink_options import parse_sink_options
from segstore.spark.stream_reader import HAS_READ_LIMITS, UnlimitedStreamReader
from tests.kits.golden_bucket import BucketCase
from tests.kits.s3_server import SECRET, served
from tests.spark.micro_batches import Checkpoint, run

if HAS_READ_LIMITS:
    from segstore.spark.stream_reader import SegstoreStreamReader as StreamReader
else:
    StreamReader = UnlimitedStreamReader


@pytest.fixture
def bucket(packed_buckets, tmp_path):
    """A copy of an encrypted and compressed bucket beside its keys."""
    case = packed_buckets / "compressed-encrypted"
    shutil.copytree(case / "bucket" / "team a", tmp_path / "bucket")
    shutil.copytree(case / "keys", tmp_path / "keys")
    return tmp_path / "bucket"


@pytest.fixture
def options(bucket):
    """As a user types them."""
    return {
        "path": str(bucket),
        "layout": "tiered",
        "keys": str(bucket.parent / "keys"),
        "spoolDirectory": str(bucket.parent / "spool"),
        "subscribe": "epochs",
    }


@pytest.fixture
def directory(bucket):
    """The same records in a log directory."""
    target = bucket.parent / "data"
    with segstore.open_bucket(bucket, keys=bucket.parent / "keys") as opened:
        opened.export_parquet("epochs", bucket.parent / "parquet")
    segstore.import_parquet(bucket.parent / "parquet", target)
    return target


def rows(options, **more):
    """Plan, pickle as Spark does, and read."""
    source = SegstoreDataSource({**options, **more})
    reader = source.reader(source.schema())
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    found = [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_a_partition_that_cannot_be_read_is_an_error(options, bucket):
    """[SEL-1] [DUR-144] All of its manifests are of another version: its records are missing."""
    for path in bucket.rglob("0/*.rsm-manifest"):
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "version": "7"}))
    with pytest.raises(LogNotFoundError, match=r"epochs-0: no segment .*rsm-manifest.*version '7'"):
        rows(options)
    del options["subscribe"]
    assert {row["partition"] for row in rows(options, assign='{"epochs":[1]}')} == {1}


def test_a_damaged_batch_is_named_by_the_bucket(packed_buckets, tmp_path):
    """[RDB-4] And no file of the spool."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "case")
    place = tmp_path / "case" / "bucket"
    path = min(place.rglob("1/*.log"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    options = {"path": str(place), "layout": "tiered", "subscribe": "orders"}
    with pytest.raises(SegstoreError) as caught:
        rows(options, spoolDirectory=str(tmp_path / "spool"))
    assert str(caught.value).startswith(f"{path}, position ")
    assert "views" not in str(caught.value)


def stream(options, checkpoint, trigger="availableNow", **more):
    """One run of a query over its checkpoint; returns partitions and offsets."""
    source = SegstoreDataSource({"startingOffsets": "earliest", **options, **more})
    reader = StreamReader(source.options, source.schema())
    return [
        (row["partition"], row["offset"])
        for batch in run(reader, trigger, checkpoint)
        for record_batch in batch.record_batches
        for row in record_batch.to_pylist()
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"includeHeaders": "true"},
        {"subscribe": "", "subscribePattern": "ep.*"},
        {"subscribe": "", "assign": '{"epochs":[1]}'},
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "50"},
        {"maxBytesPerPartition": "20000"},
        {"kafka.isolation.level": "read_committed"},
        {"isolation.level": "durable"},
        {
            "startingOffsets": '{"epochs":{"0":333,"1":-2}}',
            "endingOffsets": '{"epochs":{"0":444,"1":150}}',
        },
        {"startingTimestamp": "1736052506000", "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": "1736052506000"},
        {"failOnDataLoss": "false", "startingOffsets": '{"epochs":{"0":3,"1":5}}'},
        {"failOnDataLoss": "false", "endingOffsets": '{"epochs":{"0":5000,"1":5000}}'},
        {"kind": "epochs"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_bucket_gives_what_a_log_directory_gives(options, directory, more):
    """[SEL-5] [SEL-11] [DUR-141]."""
    without = {name: None for name, value in more.items() if value == ""}
    given = {name: value for name, value in {**options, **more}.items() if name not in without}
    local = {"path": str(directory), "subscribe": "epochs", **more}
    local = {name: value for name, value in local.items() if name not in without}
    expected = rows(local) if more.get("kind") is None else sorted(_all(local), key=str)
    found = rows(given) if more.get("kind") is None else sorted(_all(given), key=str)

    assert found == expected
    assert found


def _all(options):
    source = SegstoreDataSource(options)
    reader = source.reader(source.schema())
    return [
        tuple(row.values())
        for one in reader.partitions()
        for batch in reader.read(one)
        for row in batch.to_pylist()
    ]


def test_counts_take_the_same_door(options):
    chosen = {name: value for name, value in options.items() if name not in {"path", "subscribe"}}
    ranges = ranges_of(options_of_call(options["path"], chosen))

    assert sum(count_range(options_of_call(options["path"], chosen), one) for one in ranges) == 782


def test_a_stream_goes_on_with_what_is_copied_meanwhile(bucket, options):
    """Over one checkpoint: each record once."""
    last = [max(bucket.rglob(f"0/*.{suffix}")) for suffix in ("log", "indexes", "rsm-manifest")]
    contents = {path: path.read_bytes() for path in last}
    for path in last:
        path.unlink()
    checkpoint = Checkpoint()
    first = stream(options, checkpoint)
    nothing = stream(options, checkpoint)
    for path, data in contents.items():
        path.write_bytes(data)
    then = stream(options, checkpoint)

    assert nothing == []
    assert then == [(0, offset) for offset in range(int(last[0].name[:20]), 517)]
    expected = [(0, offset) for offset in range(164, 517)]
    assert sorted(first + then) == expected + [(1, offset) for offset in range(140, 569)]


@pytest.fixture
def made_again(packed_buckets, tmp_path):
    """A bucket with an older topic's segments, and those of the topic that took its name."""
    case = BucketCase(packed_buckets / "leftovers")
    shutil.copytree(case.directory / "bucket", tmp_path / "bucket")
    (new,) = {one["topic_id"] for one in case.said["partitions"].values()}
    (old,) = {one["topic_id"] for one in case.said["segments"]} - {new}
    return tmp_path / "bucket", old, new


@pytest.mark.filterwarnings("ignore:.*KAFKA_DATA_LOSS:UserWarning")
def test_a_topic_that_was_made_again_between_two_batches(made_again, tmp_path):
    """[BKT-11] [SEL-12] Both ids are named; without failOnDataLoss all of the new one is read."""
    bucket, old, new = made_again
    names_both = f"{old} was read before.*{new} now"
    (bucket / f"orders-{new}").rename(tmp_path / "new")
    options = {
        "path": str(bucket),
        "layout": "tiered",
        "subscribe": "orders",
        "spoolDirectory": str(tmp_path / "spool"),
    }
    checkpoint = Checkpoint()
    assert stream(options, checkpoint) == [(0, offset) for offset in range(68)]
    source = SegstoreDataSource(options)
    reader = source.reader(source.schema())
    (planned,) = reader.partitions()
    (tmp_path / "new").rename(bucket / f"orders-{new}")

    for read in (lambda: list(reader.read(planned)), lambda: stream(options, checkpoint)):
        with pytest.raises(ConnectorConditionError, match=names_both):
            read()
    with pytest.warns(UserWarning, match=names_both):
        found = stream(options, checkpoint, failOnDataLoss="false")
    assert found == [(0, offset) for offset in range(157, 193)] + [
        (1, offset) for offset in range(376)
    ]


# ---- more, or less, than the log has -------------------------------------------------------------


def test_a_gap_is_read_over_on_request(bucket, options):
    """[SEL-8] In batches, streams and from a time on; the error names the option."""
    names = sorted(path for path in bucket.rglob("*.log") if path.parent.name == "0")
    names[1].unlink()
    first, following = (int(path.name[:20]) for path in names[1:3])
    expected = [*range(164, first), *range(following, 517)]
    options = {**options, "assign": '{"epochs":[0]}'}
    del options["subscribe"]
    for read in (lambda: rows(options), lambda: stream(options, Checkpoint())):
        with pytest.raises(CorruptLogError, match="; the option allowGaps reads what is there"):
            read()
    for more in (
        {},
        {"minPartitions": "9"},
        {"failOnDataLoss": "false"},
        {"kafka.isolation.level": "read_committed"},
    ):
        found = rows(options, allowGaps="true", **more)
        assert [row["offset"] for row in found] == expected
    found = stream(options, Checkpoint(), allowGaps="true")
    assert [offset for _, offset in found] == expected
    inside = json.dumps({"epochs": {"0": first + 3}})
    found = rows(options, allowGaps="true", startingOffsets=inside)
    assert [row["offset"] for row in found] == [*range(following, 517)]


def test_deleted_records_are_read_on_request(bucket, options):
    """[SEL-9]."""
    keys = bucket.parent / "keys"
    with segstore.open_bucket(bucket, keys=keys, below_log_start=True) as opened:
        expected = opened.count("epochs")

    assert len(rows(options)) == 782
    assert len(rows(options, belowLogStart="true")) == expected > 782


# ---- what is refused, and what is not told -------------------------------------------------------


def test_plans_hold_names_of_keys_and_no_key(bucket, options, monkeypatch):
    """A folder, files by id, or the environment; paths as executors find them."""
    pem = next((bucket.parent / "keys").glob("*.private.pem"))
    monkeypatch.chdir(bucket.parent)
    monkeypatch.setenv("KEY_OF_THE_BUCKET", pem.read_text(encoding="utf-8"))
    for keys, stored in (
        ("keys", str(bucket.parent / "keys")),
        (f"k1=keys/{pem.name}", str(pem)),
        ("k1=env:KEY_OF_THE_BUCKET", "env:KEY_OF_THE_BUCKET"),
    ):
        source = SegstoreDataSource({**options, "keys": keys})
        reader = source.reader(source.schema())
        partitions = reader.partitions()
        sent = pickle.dumps((reader, partitions))

        assert stored.encode() in sent
        for secret in (b"PRIVATE KEY", pem.read_bytes()[60:120]):
            assert secret not in sent
        assert "PRIVATE" not in repr(parse_options({**options, "keys": keys}))
        assert sum(batch.num_rows for one in partitions for batch in reader.read(one)) == 782


def test_keys_from_the_environment_need_no_option(options, monkeypatch):
    monkeypatch.setenv("SEGSTORE_TIERED_KEYS", options["keys"])
    given = {name: value for name, value in options.items() if name != "keys"}

    assert len(rows(given)) == 782


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"layout": "bucket"}, "layout.*directory or tiered"),
        ({"layout": "directory"}, "option keys is for a tiered bucket: set the option layout"),
        (
            {"layout": "directory", "keys": None, "allowGaps": "true"},
            "option allowGaps is for a tiered bucket",
        ),
        ({"belowLogStart": "1"}, "belowLogStart.*true or false"),
        ({"keys": "-----BEGIN PRIVATE KEY-----\nMIIE"}, "no key itself"),
        ({"keys": "k1=,k2=x"}, "names files of private keys"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(options, more, text):
    given = {name: value for name, value in {**options, **more}.items() if value is not None}
    with pytest.raises(ConnectorOptionError, match=text) as caught:
        parse_options(given)
    assert "MIIE" not in str(caught.value)


def test_a_bucket_is_only_read(options):
    with pytest.raises(
        ConnectorOptionError, match="writing needs a log directory: a tiered bucket"
    ):
        parse_sink_options({**options, "topic": "epochs"})
    with pytest.raises(ConnectorOptionError, match="writing needs"):
        SegstoreDataSource({**options, "topic": "epochs"}).writer(None, overwrite=False)


def test_what_cannot_be_read_names_the_object(bucket, options):
    """A missing key is an error of planning, a folder that is not there one of ``load``."""
    source = SegstoreDataSource({**options, "keys": "k2=other.pem"})
    with pytest.raises(EncryptionKeyError, match=r"epochs-.*rsm-manifest.*'k1'"):
        source.reader(source.schema()).partitions()
    with pytest.raises(LogNotFoundError, match="no such folder"):
        SegstoreDataSource({**options, "path": f"{bucket}-2"}).schema()


@pytest.fixture
def two_topics(packed_buckets, bucket, options):
    """Options for a bucket that also has a topic whose keys are not given."""
    folder = "payments-JlvWaJDKSpKywiF1KKCbow"
    shutil.copytree(packed_buckets / "encrypted" / "bucket" / folder, bucket / folder)
    return {name: value for name, value in options.items() if name != "subscribe"}


def manifests_of(bucket, topic, partition):
    """The manifests of a partition, ascending."""
    return sorted(bucket.glob(f"{topic}-*/{partition}/*.rsm-manifest"))


def remove(manifest):
    """Delete the three objects of a segment; return them."""
    objects = [(path, path.read_bytes()) for path in manifest.parent.glob(f"{manifest.stem}.*")]
    for path, _ in objects:
        path.unlink()
    return objects


def test_a_bad_topic_hides_no_other(two_topics):
    """Without a key for one topic, the others are read, in batch and stream."""
    choices = ({"subscribe": "epochs"}, {"subscribePattern": "ep.*"})
    for choice in choices:
        assert len(rows({**two_topics, **choice})) == 782
    found = stream({**two_topics, "subscribe": "epochs"}, Checkpoint())
    assert len(found) == 782
    for choice in ({"subscribe": "epochs,payments"}, {"subscribePattern": ".*"}):
        with pytest.raises(EncryptionKeyError, match="payments-"):
            rows({**two_topics, **choice})


def test_a_bad_partition_hides_no_other(bucket, two_topics):
    """A gap is an error of the reads that choose its partition."""
    remove(manifests_of(bucket, "epochs", 0)[-2])

    assert rows({**two_topics, "assign": '{"epochs":[1]}'})
    with pytest.raises(CorruptLogError, match="epochs-0"):
        rows({**two_topics, "subscribe": "epochs"})


def test_plans_read_the_manifests_of_what_they_choose_once(bucket, two_topics, monkeypatch):
    """[RDB-3] Of other topics none; of a bucket that did not change none again; a new one once."""
    read: list[str] = []
    read_range = LocalFolder.read_range

    def count(self, file, start, end):
        read.append(file.path)
        return read_range(self, file, start, end)

    def planned():
        read.clear()
        source = SegstoreDataSource({**two_topics, "subscribe": "epochs"})
        assert source.reader(source.schema()).partitions()
        assert not [path for path in read if path.startswith("payments")]
        return sorted(path for path in read if path.endswith("rsm-manifest"))

    last = manifests_of(bucket, "epochs", 0)[-1]
    objects = remove(last)
    monkeypatch.setattr(LocalFolder, "read_range", count)
    there = manifests_of(bucket, "epochs", 0) + manifests_of(bucket, "epochs", 1)
    assert planned() == sorted(str(path.relative_to(bucket)) for path in there)
    assert planned() == []
    for path, data in objects:
        path.write_bytes(data)
    assert planned() == [str(last.relative_to(bucket))]


# ---- with Spark ----------------------------------------------------------------------------------


def test_spark_reads_a_tiered_bucket(spark, bucket, options, tmp_path, capfd):
    """Batch, count, a function with a condition and a stream; no plan shows a secret or a key."""
    pytest.importorskip("obstore")
    import segstore.spark

    with served() as store:
        store.put(bucket, "tier")
        remote = {f"remote.{name}": value for name, value in store.settings.items()}
        given = {**options, **remote, "path": "s3://bucket/tier"}
        frame = spark.read.format("segstore").options(**given).load()
        assert frame.where("offset >= 500").count() == 17 + 69
        url, chosen = given.pop("path"), given
        assert segstore.spark.count(spark, url, **chosen) == 782
        found = segstore.spark.read(spark, url, ["offset"], "offset BETWEEN 205 AND 206", **chosen)
        assert sorted(row.offset for row in found.collect()) == [205, 205, 206, 206]
        frame.explain(extended=True)
        found.explain(extended=True)
        query = (
            spark.readStream.format("segstore")
            .options(path=url, startingOffsets="earliest", **chosen)
            .load()
            .select("partition", "offset")
            .writeStream.format("parquet")
            .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        assert spark.read.parquet(str(tmp_path / "out")).distinct().count() == 782
    written = b"".join(
        path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()
    )
    said = "".join(capfd.readouterr())
    assert SECRET not in said
    assert "PRIVATE KEY" not in said
    assert b"PRIVATE KEY" not in written
    assert os.fsencode(SECRET) not in written
