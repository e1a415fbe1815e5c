"""Segments copied to a folder and to S3, in the layout of Kafka's LocalTieredStorage."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

pytest.importorskip("obstore")

import segstore
from segstore.errors import (
    IllegalArgumentError,
    LogNotFoundError,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
)
from segstore.remote.storage.open_storage import open_remote_storage
from segstore.remote.storage.remote_storage_manager import IndexType, RemoteStorageManager
from segstore.remote.storage.writable_folder import WritableFolder
from tests.kits.moto_server import moto_store
from tests.kits.remote_storage_kit import metadata_of, sealed_segments, segment_data
from tests.kits.s3_server import SECRET, served

SUFFIXES = {"log", "index", "timeindex", "txnindex", "leader_epoch_checkpoint", "snapshot"}


class Place:
    """Where segments are copied to, and the names that are there."""

    def __init__(self, url, settings, names):
        self.url, self.settings, self.names = url, settings, names
        self.storage = open_remote_storage(url, settings)

    def suffixes(self):
        return {name.partition(".")[2] for name in self.names()}


@pytest.fixture(scope="module")
def moto():
    with moto_store() as store:
        yield store


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path):
    if request.param == "folder":
        root = tmp_path / "remote"

        def names():
            return [str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()]

        return Place(root, {}, names)
    store, bucket = request.getfixturevalue("moto"), f"b{uuid.uuid4().hex}"
    return Place(store.make(bucket), store.settings, lambda: store.keys(bucket))


@pytest.fixture
def s3():
    """A store that can fail."""
    with served() as store:
        yield store


def at_s3(store, **settings):
    return open_remote_storage("s3://bucket/a", {**store.settings, **settings})


# ---- what is there -------------------------------------------------------------------------------


def test_a_copy_is_the_files_under_kafkas_names(place, tmp_path):
    """[TIER-95] [TIER-11] Six files; what is read is what was copied."""
    metadata, data = metadata_of(40, 99, 20_000), segment_data(tmp_path / "log")
    assert isinstance(place.storage, RemoteStorageManager)
    assert place.storage.copy_log_segment_data(metadata, data) is None

    folder = f"kafka-tiered-storage/orders-0-{'A' * 19}F7A"
    assert {name.rpartition("/")[0] for name in place.names()} == {folder}
    stems = {name.rpartition("/")[2].partition(".")[0] for name in place.names()}
    (stem,) = stems
    assert stem.startswith("00000000000000000040-")
    assert len(stem) == 20 + 1 + 22
    assert place.suffixes() == SUFFIXES
    log = Path(data.log_segment).read_bytes()
    assert bytes(place.storage.fetch_log_segment(metadata, 0, len(log))) == log
    for index, path in (
        (IndexType.OFFSET, data.offset_index),
        (IndexType.TIMESTAMP, data.time_index),
        (IndexType.TRANSACTION, data.transaction_index),
        (IndexType.PRODUCER_SNAPSHOT, data.producer_snapshot_index),
    ):
        assert bytes(place.storage.fetch_index(metadata, index)) == Path(path).read_bytes()
    found = place.storage.fetch_index(metadata, IndexType.LEADER_EPOCH)
    assert bytes(found) == data.leader_epoch_index
    place.storage.close()
    place.storage.close()


def test_a_part_of_a_segment_ends_where_the_segment_does(place, tmp_path):
    """[TIER-12] [TIER-97] Beyond the end there is nothing; no range is an error."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    place.storage.copy_log_segment_data(metadata, data)
    log = Path(data.log_segment).read_bytes()

    for start, end in (
        (0, 1),
        (7, 7),
        (100, 5000),
        (19_990, 30_000),
        (20_000, 20_001),
        (2**31, 2**32),
    ):
        assert bytes(place.storage.fetch_log_segment(metadata, start, end)) == log[start:end]
    for start, end in ((-1, 5), (6, 5)):
        with pytest.raises(IllegalArgumentError, match="no range of a segment"):
            place.storage.fetch_log_segment(metadata, start, end)


def test_a_large_segment_is_copied_in_parts(place, tmp_path):
    """More than one request of an upload and of a read."""
    metadata = metadata_of(0, 9, 40_000_000)
    data = segment_data(tmp_path / "log", log_bytes=40_000_000)
    place.storage.copy_log_segment_data(metadata, data)
    log = Path(data.log_segment).read_bytes()
    assert bytes(place.storage.fetch_log_segment(metadata, 0, 2**31)) == log
    assert bytes(place.storage.fetch_log_segment(metadata, 5, 20_000_000)) == log[5:20_000_000]


def test_what_is_not_there_is_told(place, tmp_path):
    """[TIER-12] The segment and each index, of an unknown id; a transaction index that is none."""
    metadata = metadata_of(0, 9, 20_000)
    for copied in (False, True):
        with pytest.raises(RemoteResourceNotFoundError) as caught:
            place.storage.fetch_index(metadata, IndexType.TRANSACTION)
        assert "kafka-tiered-storage/orders-0-" in str(caught.value)
        assert ".txnindex" in str(caught.value) or not copied
        if not copied:
            with pytest.raises(RemoteResourceNotFoundError):
                place.storage.fetch_log_segment(metadata, 0, 100)
            data = segment_data(tmp_path / "log", has_aborted=False)
            place.storage.copy_log_segment_data(metadata, data)


def test_a_copy_replaces_an_earlier_one_with_its_id(place, tmp_path):
    """[TIER-10] Also a transaction index that the later one has not."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    place.storage.copy_log_segment_data(metadata, data)
    place.storage.copy_log_segment_data(metadata, data)
    assert place.suffixes() == SUFFIXES
    later = segment_data(tmp_path / "later", has_aborted=False, log_bytes=500)
    place.storage.copy_log_segment_data(metadata, later)

    assert place.suffixes() == SUFFIXES - {"txnindex"}
    assert len(place.storage.fetch_log_segment(metadata, 0, 20_000)) == 500


def test_deleting_is_of_one_segment_and_can_be_repeated(place, tmp_path):
    """[TIER-13] [TIER-98] Segments that are not there are deleted already."""
    data = segment_data(tmp_path / "log")
    one, other = metadata_of(0, 9, 20_000), metadata_of(0, 9, 20_000)
    place.storage.delete_log_segment_data(one)
    place.storage.copy_log_segment_data(one, data)
    place.storage.copy_log_segment_data(other, data)
    for _ in range(2):
        place.storage.delete_log_segment_data(one)
        assert len(place.names()) == len(SUFFIXES)
    place.storage.fetch_log_segment(other, 0, 10)
    place.storage.delete_log_segment_data(other)
    assert place.names() == []


def test_the_bucket_that_is_read_is_the_one_that_is_written(place, tmp_path):
    """[TIER-95] ``open_bucket`` of the same place; a copy that was not finished is left out."""
    (tmp_path / "data").mkdir()
    with segstore.open(tmp_path / "data" / "orders-0", durability="none") as log:
        for number in range(4):
            log.append([(b"key", b"%d" % number * 50)] * 100)
            log.roll()
        log.append([(b"key", b"active")])
        copies = list(sealed_segments(log))
        for metadata, data in copies:
            place.storage.copy_log_segment_data(metadata, data)
        expected = [record.value for record in log.scan()][: 4 * 100]

    def read():
        spool = str(tmp_path / "spool")
        with segstore.open_bucket(place.url, spool_directory=spool, **place.settings) as bucket:
            with bucket.open("orders", 0) as log:
                values = [record.value for record in log.scan()]
            return values, len(bucket.left_out("orders", 0))

    assert read() == (expected, 0)
    unfinished = metadata_of(400, 400, 10)
    files = {f"{400:020d}-{'A' * 22}.log": b"half a copy"}
    place.storage._store.put(place.names()[0].split("/")[1], files)
    assert read() == (expected, 1)
    # a deletion that was cut short
    place.storage.delete_log_segment_data(copies[-1][0])
    place.storage.delete_log_segment_data(unfinished)
    assert read()[0] == expected[:300]


# ---- what fails ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["log", "index", "snapshot"])
def test_a_local_file_that_cannot_be_read_leaves_no_copy(place, tmp_path, lost):
    """[TIER-96] The error names the local file; what was copied before is removed."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    Path(tmp_path / "log" / f"a.{lost}").unlink()
    with pytest.raises(LogNotFoundError) as caught:
        place.storage.copy_log_segment_data(metadata, data)
    assert caught.value.file == str(tmp_path / "log" / f"a.{lost}")
    assert place.names() == []


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_the_snapshot_is_put_last_and_goes_first(tmp_path, s3, suffix):
    """[DUR-142] Whichever put or deletion fails: what is there is no whole copy, or all of it."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage = at_s3(s3, max_retries="0")

    def refused(handler, key):
        if key.endswith(f".{suffix}") and handler.command == "PUT":
            handler.answer(400, b"<Error/>")
            return True
        return False

    s3.fault = refused
    with pytest.raises(
        RemoteStorageError, match=r"s3://bucket/a/kafka-tiered-storage/orders-0-.*400"
    ):
        storage.copy_log_segment_data(metadata, data)
    assert s3.objects == {}
    s3.fault = None
    storage.copy_log_segment_data(metadata, data)

    def kept(handler, key):
        if key.endswith(f".{suffix}") and handler.command == "POST":
            handler.answer(400, b"<Error/>")
            return True
        return False

    s3.fault = kept
    with pytest.raises(RemoteStorageError):
        storage.delete_log_segment_data(metadata)
    has_snapshot = any(key.endswith(".snapshot") for key in s3.objects)
    assert has_snapshot == (suffix == "snapshot")
    assert len(s3.objects) == len(SUFFIXES) if has_snapshot else len(s3.objects) > 0
    s3.fault = None
    storage.delete_log_segment_data(metadata)
    assert s3.objects == {}


@pytest.mark.parametrize("fault", [408, 429, 500, 503, "hangs", "drops"])
@pytest.mark.parametrize("call", ["copy", "fetch", "index", "delete"])
def test_what_may_succeed_later_is_told_apart(tmp_path, s3, fault, call):
    """[TIER-16] [DUR-144] Throttling, a time-out, a lost connection; without the secret."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage = at_s3(s3, max_retries="1", timeout="0.3s", retry_timeout="1")
    storage.copy_log_segment_data(metadata, data)

    def failing(handler, _):
        if fault == "drops":
            handler.connection.close()
            handler.close_connection = True
        elif fault != "hangs":
            handler.answer(fault, SECRET.encode())
        return True

    s3.fault = failing
    calls = {
        "copy": lambda: storage.copy_log_segment_data(metadata, data),
        "fetch": lambda: storage.fetch_log_segment(metadata, 0, 10),
        "index": lambda: storage.fetch_index(metadata, IndexType.OFFSET),
        "delete": lambda: storage.delete_log_segment_data(metadata),
    }
    with pytest.raises(RetriableRemoteStorageError) as caught:
        calls[call]()
    assert "s3://bucket/a/kafka-tiered-storage/orders-0-" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refusal_is_for_good(tmp_path, s3, status):
    """[TIER-16] Nothing of it passes by waiting."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    s3.fault = lambda handler, _: handler.answer(status, b"<Error/>") is None
    with pytest.raises(RemoteStorageError) as caught:
        at_s3(s3).copy_log_segment_data(metadata, data)
    assert type(caught.value) is RemoteStorageError


def test_a_call_that_failed_after_its_effect_can_be_repeated(tmp_path, s3):
    """[TIER-10] [TIER-13] The store did what it was asked to, and its answer was lost."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage = at_s3(s3, max_retries="0", timeout="0.3s", retry_timeout="1")

    def answer_lost(handler, key):
        if handler.command == "PUT":
            s3.objects[key] = handler.body
        return True

    for answers in range(1 + len(SUFFIXES)):
        left = [answers]

        def after_some(handler, key, left=left):
            left[0] -= 1
            return left[0] < 0 and answer_lost(handler, key)

        s3.fault = after_some
        with pytest.raises(RetriableRemoteStorageError):
            storage.copy_log_segment_data(metadata, data)
        s3.fault = None
        storage.copy_log_segment_data(metadata, data)
        assert len(s3.objects) == len(SUFFIXES)
        storage.delete_log_segment_data(metadata)
        assert s3.objects == {}


class _Interrupted(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("calls", range(4))
def test_an_interrupted_copy_leaves_nothing(place, tmp_path, monkeypatch, calls):
    """[DUR-142] A Ctrl-C before, between and after the puts."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    store, left = place.storage._store, [calls]
    put = store.put

    def interrupted(folder, files):
        for before in (True, False):
            if left[0] == 0:
                left[0] = -1
                raise _Interrupted
            left[0] -= 1
            if before:
                put(folder, files)

    monkeypatch.setattr(store, "put", interrupted)
    with pytest.raises(_Interrupted):
        place.storage.copy_log_segment_data(metadata, data)
    assert place.names() == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    """A file in the place of the folder; nothing of the local files is to blame."""
    (tmp_path / "remote").write_text("x")
    storage = open_remote_storage(tmp_path / "remote")
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    with pytest.raises(RemoteStorageError) as caught:
        storage.copy_log_segment_data(metadata, data)
    assert str(tmp_path / "remote") in str(caught.value)
    with pytest.raises(RemoteStorageError):
        storage.fetch_log_segment(metadata, 0, 10)


def test_a_copy_that_was_killed_goes_with_the_deletion(tmp_path):
    """[DUR-142] [TIER-52] Its files beside their names too."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage = open_remote_storage(tmp_path / "remote")
    storage.copy_log_segment_data(metadata, data)
    (folder,) = (tmp_path / "remote" / "kafka-tiered-storage").iterdir()
    for path in list(folder.iterdir()):
        path.rename(f"{path}.tmp")
    storage.delete_log_segment_data(metadata)
    assert not os.path.exists(folder)  # noqa: PTH110


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("memory://x", {}, "cannot be copied to such a URL"),
        ("https://user:pass@host/x", {}, "cannot be copied to such a URL"),
        ("/somewhere", {"endpoint": "x"}, "has no settings"),
        ("s3://bucket/x", {"nonsense": "x"}, "cannot be opened"),
    ],
)
def test_places_that_cannot_be_written_are_refused(url, settings, said):
    """When they are named, not at the first copy."""
    with pytest.raises(IllegalArgumentError, match=said) as caught:
        open_remote_storage(url, settings)
    assert "pass" not in str(caught.value).replace("passes", "")


def test_the_folder_itself_may_be_named(tmp_path):
    """[TIER-95] As ``open_bucket`` takes it."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    open_remote_storage(tmp_path / "remote").copy_log_segment_data(metadata, data)
    itself = open_remote_storage(f"{tmp_path}/remote/kafka-tiered-storage/")
    assert len(itself.fetch_log_segment(metadata, 0, 10)) == 10


def test_a_folder_is_kept_open_until_it_goes_or_the_storage_is_closed(tmp_path):
    """[TIER-95] For reads that ask for its files by themselves; the last 1,000 are kept."""
    store = WritableFolder(str(tmp_path / "remote"))
    assert store.open_folder("none") is None
    for n in range(1006):
        store.put(f"f{n}", {"a": b"1"})
    kept = [store.open_folder(f"f{n}") for n in range(1006)]
    assert [one.closed for one in kept] == [True] * 6 + [False] * 1000
    assert store.open_folder("f1005") is kept[1005]
    assert bytes(kept[1005].read_view("a", 0, 9)) == b"1"
    store.delete("f1005", ["a"])
    assert kept[1005].closed
    assert store.open_folder("f1005") is None
    store.put("f1005", {"a": b"2"})
    assert bytes(store.open_folder("f1005").read_view("a", 0, 9)) == b"2"
    store.close()
    assert all(one.closed for one in kept)
    assert store.get_whole("f3", "a") == b"1", "a later call works"
    assert store.open_folder("f3") is not None
    store.close()
