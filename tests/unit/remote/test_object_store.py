"""A directory in S3: what is fetched, and what is said when it cannot be."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import time

import boto3
import pytest
from moto.server import ThreadedMotoServer

from segstore.errors import (
    ForkedHandleError,
    IllegalArgumentError,
    LogNotFoundError,
    LogPermissionError,
    LogTruncatedError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.remote.object_store import ObjectStore
from segstore.remote.remote_logs import RemoteSettings
from segstore.types import Isolation, TopicPartition
from tests.kits.remote_directories import differences, remote_logs, remote_rows
from tests.kits.s3_server import SECRET, SETTINGS

ORDERS = TopicPartition("orders", 0)
URL = "s3://bucket/logs"
ANY = Isolation.READ_UNCOMMITTED
SEGMENT = "logs/orders-0/00000000000000001000.log"


@pytest.fixture
def moto(monkeypatch):
    """An S3 of somebody else, with an empty bucket; gives its endpoint."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_an_s3_bucket_reads_as_the_directory(moto, directory, tmp_path):
    """Against moto; a second topic, an object that is no log's, a name that needs escaping."""
    client = boto3.client(
        "s3",
        endpoint_url=moto,
        aws_access_key_id="id",
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="bucket")
    (directory / "a b+%-file").write_bytes(b"nothing of ours")
    for file in directory.rglob("*"):
        if file.is_file():
            client.upload_file(str(file), "bucket", f"logs/{file.relative_to(directory)}")
    logs = remote_logs(URL, tmp_path / "spool", **{**SETTINGS, "endpoint": moto})

    assert logs.partitions() == [ORDERS]
    assert differences(directory, logs, ORDERS) == []

    wrong = remote_logs("s3://buckets/logs", tmp_path / "spool", **{**SETTINGS, "endpoint": moto})
    with pytest.raises(LogNotFoundError, match=r"s3://buckets/logs: .*NoSuchBucket") as caught:
        wrong.check()
    assert SECRET not in str(caught.value)


def test_a_range_fetches_its_segments_and_no_other(s3, directory, tmp_path):
    """By names alone; a second read of the same range fetches nothing."""
    s3.put(directory)
    logs = remote_logs(URL, tmp_path / "spool", **s3.settings)
    logs.bounds(ORDERS, ANY)
    planned = s3.gets[:]
    assert [key for key in planned if key.endswith(".log")] == [
        "logs/orders-0/00000000000000001900.log"
    ]

    s3.gets.clear()
    rows, error = remote_rows(logs, ORDERS, 1050, 1150, ANY)
    assert error is None
    assert [row["offset"] for row in rows] == list(range(1050, 1150))
    assert sorted(key.rpartition("/")[2] for key in s3.gets) == sorted(
        f"{base:020d}.{kind}"
        for base in (1000, 1100)
        for kind in ("log", "index", "timeindex")
        if s3.objects[f"logs/orders-0/{base:020d}.{kind}"]
    )

    s3.gets.clear()
    assert remote_rows(logs, ORDERS, 1050, 1150, ANY) == (rows, None)
    assert s3.gets == []


def test_a_large_file_comes_in_parts(s3, monkeypatch):
    """Each request has a time-out of its own, and the entity tag of the listing."""
    monkeypatch.setattr("segstore.remote.object_store.PART_BYTES", 1000)
    s3.objects["logs/large"] = bytes(range(256)) * 10
    store = ObjectStore(URL, s3.settings)
    parts: list[bytes] = []
    store.read(store.list_folder("").files["large"], parts.append)

    assert [len(part) for part in parts] == [1000, 1000, 560]
    assert b"".join(parts) == s3.objects["logs/large"]
    assert store.read_range(store.list_folder("").files["large"], 500, 2100) == bytes(
        s3.objects["logs/large"][500:2100]
    )


def test_the_partition_itself_or_nothing_is_no_log_directory(s3, directory, tmp_path):
    s3.put(directory)
    spool = tmp_path / "spool"
    with pytest.raises(NotALogError, match=r"s3://bucket/logs/orders-0: .*the one above"):
        remote_logs(f"{URL}/orders-0", spool, **s3.settings).partitions()
    with pytest.raises(LogNotFoundError, match="s3://bucket/elsewhere"):
        remote_logs("s3://bucket/elsewhere", spool, **s3.settings).partitions()
    with pytest.raises(LogNotFoundError, match="s3://bucket/logs/absent-3"):
        remote_logs(URL, spool, **s3.settings).bounds(TopicPartition("absent", 3), ANY)


# ---- what goes wrong -----------------------------------------------------------------------------


def half_a_body(handler, key):
    """Answer with the right length and half the bytes, then close."""
    if key != SEGMENT:
        return False
    data = handler.store.objects[key]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True
    return True


def a_short_range(handler, key):
    """Answer a range that is shorter than asked for, as if that were all."""
    if key != SEGMENT:
        return False
    data = handler.store.objects[key]
    handler.answer(206, data[:10], Content_Range=f"bytes 0-9/{len(data)}")
    return True


def refused(handler, _key):
    handler.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
    return True


def silence(handler, key):
    """Take the request and say nothing."""
    if key != SEGMENT:
        return False
    time.sleep(4)
    handler.close_connection = True
    return True


@pytest.mark.parametrize(
    "answer",
    [
        (half_a_body, ReadIOError, "cannot be read"),
        (a_short_range, ReadIOError, "Requested 0..[0-9]+, got 0..10"),
        (refused, LogPermissionError, "refuses"),
        (silence, ReadIOError, "cannot be read"),
    ],
)
def test_a_fault_is_an_error_that_names_the_url(s3, directory, tmp_path, answer):
    """In bounded time, without secrets, and nothing of the broken file stays in the spool."""
    s3.put(directory)
    settings = {**s3.settings, "max_retries": "1", "timeout": "1s"}
    logs = remote_logs(URL, tmp_path / "spool", **settings)
    logs.bounds(ORDERS, ANY)
    s3.fault, kind, told = answer

    began = time.monotonic()
    with pytest.raises(kind, match=told) as caught:
        remote_rows(logs, ORDERS, 1000, 1100, ANY)
    assert time.monotonic() - began < 30
    assert str(caught.value).startswith(URL)
    assert_no_secret(caught.value)
    assert not list((tmp_path / "spool" / "objects").glob("*.part"))

    s3.fault = None
    assert len(remote_rows(logs, ORDERS, 1000, 1100, ANY)[0]) == 100


def test_what_fails_once_is_tried_again_by_the_library(s3, directory, tmp_path):
    s3.put(directory)
    failed = []

    def once(handler, key):
        if key in failed:
            return False
        failed.append(key)
        handler.answer(503, b"<Error><Code>SlowDown</Code></Error>")
        return True

    s3.fault = once
    logs = remote_logs(URL, tmp_path / "spool", **s3.settings)
    assert len(remote_rows(logs, ORDERS, 1000, 1100, ANY)[0]) == 100
    assert SEGMENT in failed


def test_a_segment_that_is_gone_from_store_and_listing_is_lost_data(s3, directory, tmp_path):
    """It was listed, then deleted: the next listing says what the log holds now."""
    s3.put(directory)
    logs = remote_logs(URL, tmp_path / "spool", **s3.settings)
    for key in list(s3.objects):
        if key.endswith((".log", "index")) and key < SEGMENT:
            del s3.objects[key]
    losses = []
    parts = logs.parts(ORDERS, 900, 1100, ANY, losses.append)
    found = [offset for part, start in parts for offset in range(start, part.end_offset)]

    assert found == list(range(1000, 1100))
    assert losses[0].start_offset == 1000


def test_a_file_that_is_listed_and_is_not_there_is_named(s3, directory, tmp_path):
    s3.put(directory)

    def gone(handler, key):
        if key != SEGMENT:
            return False
        handler.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return True

    s3.fault = gone
    with pytest.raises(LogNotFoundError, match=rf"s3://bucket/{SEGMENT}: .*listed.*gone"):
        remote_rows(remote_logs(URL, tmp_path / "spool", **s3.settings), ORDERS, 1000, 1100, ANY)


def test_a_file_that_always_changes_between_listing_and_reading_is_an_error(
    s3, directory, tmp_path
):
    """After as many listings as a local reader looks."""
    s3.put(directory)

    def changes(handler, key):
        if key == SEGMENT:
            handler.store.objects[SEGMENT] += b"\0"
        return False

    s3.fault = changes
    logs = remote_logs(URL, tmp_path / "spool", **s3.settings)
    with pytest.raises(LogTruncatedError, match=rf"s3://bucket/{SEGMENT}: .*found.*expected"):
        remote_rows(logs, ORDERS, 1000, 1100, ANY)
    assert s3.gets.count(SEGMENT) == 4 * 2  # each look: first by a client that gives up


def test_a_file_that_changes_once_is_listed_again(s3, directory, tmp_path):
    """A writer's upload of the active segment: the second listing has its new entity tag."""
    s3.put(directory)
    changed = []

    def changes(handler, key):
        if key == SEGMENT and not changed:
            changed.append(key)
            handler.store.objects[SEGMENT] += b""
            handler.store.objects[SEGMENT] = bytes(handler.store.objects[SEGMENT]) + b"\0" * 7
        return False

    s3.fault = changes
    logs = remote_logs(URL, tmp_path / "spool", **s3.settings)
    assert len(remote_rows(logs, ORDERS, 1000, 1050, ANY)[0]) == 50
    assert changed


def test_no_network_is_an_error_in_bounded_time(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    logs = remote_logs(URL, tmp_path, **{**SETTINGS, "endpoint": endpoint, "max_retries": "1"})
    began = time.monotonic()
    with pytest.raises(ReadIOError, match=URL) as caught:
        logs.check()
    assert time.monotonic() - began < 30
    assert_no_secret(caught.value)


def test_settings_that_are_wrong_are_named_without_their_values(tmp_path):
    for settings in (
        {**SETTINGS, "nonsense": "7"},
        {**SETTINGS, "max_retries": "a-value"},
        {**SETTINGS, "retry_timeout": "a-value"},
    ):
        with pytest.raises(IllegalArgumentError) as caught:
            remote_logs(URL, tmp_path, **settings)
        assert "a-value" not in str(caught.value)
        assert_no_secret(caught.value)


def test_settings_show_no_value():
    settings = RemoteSettings({"secret_access_key": SECRET}, "/spool")

    assert SECRET not in repr(settings)
    assert pickle.loads(pickle.dumps(settings)).store == {"secret_access_key": SECRET}


def assert_no_secret(error: SegstoreError) -> None:
    """Neither it, nor what a traceback shows of it."""
    told = f"{error} {error!r} {error.__dict__}"
    assert error.__suppress_context__ or error.__context__ is None
    assert SECRET not in told
    assert SETTINGS["access_key_id"] not in told


def test_a_forked_process_is_told_and_does_not_wait(s3):
    """[DUR-68] The library's threads stay in the parent: a request here would never end."""
    store = ObjectStore(URL, s3.settings)
    store.list_folder("")
    child = os.fork()
    if not child:
        signal.alarm(20)
        for use in (lambda: store.list_folder(""), lambda: ObjectStore(URL, s3.settings)):
            try:
                use()
            except ForkedHandleError:
                continue
            os._exit(1)
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("gs://bucket/logs", {"skip_signature": "true"}),
        ("az://container/logs", {"account_name": "account", "skip_signature": "true"}),
        ("abfss://container@account.dfs.core.windows.net/logs", {"sas_key": "sv=1&sig=2"}),
        ("s3a://bucket/logs", {"region": "eu-central-1", "timeout": "5s"}),
    ],
)
def test_other_stores_are_opened_by_their_urls(url, settings):
    assert ObjectStore(url, settings).url == url


def test_an_endpoint_without_tls_is_asked_for_by_name(tmp_path):
    """The library says no more than that it cannot build a request."""
    settings = SETTINGS | {"endpoint": "http://127.0.0.1:1", "max_retries": "0"}
    del settings["allow_http"]
    logs = remote_logs(URL, tmp_path, **settings)
    with pytest.raises(ReadIOError, match="allow_http=true"):
        logs.partitions()
