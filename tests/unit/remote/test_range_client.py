"""Ranges that come by a signed address: the right bytes, or the library is asked."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time

import pytest

from segstore.errors import LogNotFoundError, LogTruncatedError
from segstore.remote import range_client
from segstore.remote.object_store import ObjectStore
from segstore.remote.range_client import FAILURES, PAUSE_SECONDS, RangeClient, is_plain, timeout_of
from tests.kits.s3_server import SECRET, tag_of

KEY = "logs/one"
DATA = bytes(range(256)) * 4096


@pytest.fixture
def store(s3, monkeypatch):
    """An `ObjectStore` with one object; the test has no proxy."""
    for name in list(os.environ):
        if "proxy" in name.lower():
            monkeypatch.delenv(name)
    s3.objects[KEY] = DATA
    return ObjectStore("s3://bucket/logs", s3.settings)


@pytest.fixture
def file(store):
    return store.list_folder("").files["one"]


@pytest.fixture
def asked_library(monkeypatch):
    """Requests of the library, as ranges."""
    asked = []
    read_range = RangeClient.read_range

    def noted(self, file, start, end):
        found = read_range(self, file, start, end)
        if found is None:
            asked.append((start, end))
        return found

    monkeypatch.setattr(RangeClient, "read_range", noted)
    return asked


def test_any_range_has_the_bytes_of_the_object(store, file, asked_library):
    for start, end in ((0, 1), (5, 5000), (0, len(DATA)), (len(DATA) - 1, len(DATA))):
        found = store.read_range(file, start, end)
        assert found == DATA[start:end]
        assert found.readonly
    assert asked_library == []


def test_one_connection_serves_requests_one_after_another(s3, store, file):
    ports = set()

    def noted(handler, _key):
        ports.add(handler.client_address[1])
        return False

    s3.fault = noted
    for start in range(0, 100_000, 10_000):
        store.read_range(file, start, start + 10_000)
    assert len(ports) == 1


def test_threads_get_their_own_ranges(store, file, asked_library):
    wrong = []

    def read(seed):
        for number in range(40):
            start = (seed * 7919 + number * 104_729) % (len(DATA) - 70_000)
            if (
                store.read_range(file, start, start + 70_000 - number)
                != (DATA[start : start + 70_000 - number])
            ):
                wrong.append((seed, number))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert asked_library == []


def test_a_connection_that_the_server_has_closed_is_replaced(s3, store, file, asked_library):
    """As a server does with one that was idle."""

    def closes(handler, _key):
        handler.close_connection = True  # without a word in the headers
        return False

    s3.fault = closes
    for start in range(5):
        assert store.read_range(file, start, start + 1000) == DATA[start : start + 1000]
        time.sleep(0.05)
    assert asked_library == []


def other_tag(handler, start, end):
    handler.answer(206, DATA[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(DATA)}")


def other_range(handler, start, end):
    total = f"bytes {start + 1}-{end}/{len(DATA)}"
    handler.answer(206, DATA[start + 1 : end + 1], Content_Range=total, ETag=tag_of(DATA))


def other_size(handler, start, end):
    total = f"bytes {start}-{end - 1}/{len(DATA) + 1}"
    handler.answer(206, DATA[start:end], Content_Range=total, ETag=tag_of(DATA))


def other_length(handler, start, end):
    total = f"bytes {start}-{end - 1}/{len(DATA)}"
    handler.answer(206, DATA[start : end - 1], Content_Range=total, ETag=tag_of(DATA))


def an_encoding(handler, start, end):
    total = f"bytes {start}-{end - 1}/{len(DATA)}"
    part = bytes(end - start)
    handler.answer(206, part, Content_Range=total, ETag=tag_of(DATA), Content_Encoding="gzip")


def all_of_it(handler, _start, _end):
    handler.answer(200, DATA, ETag=tag_of(DATA))


def busy(handler, _start, _end):
    handler.answer(503, b"<Error><Code>SlowDown</Code></Error>")


def elsewhere(handler, _start, _end):
    handler.answer(307, b"", Location="http://127.0.0.1:9/bucket/logs/one")


def cut(handler, start, end):
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(DATA)}")
    handler.send_header("Content-Length", str(end - start))
    handler.send_header("ETag", tag_of(DATA))
    handler.end_headers()
    handler.wfile.write(DATA[start : start + (end - start) // 2])
    handler.close_connection = True


def no_http(handler, _start, _end):
    handler.wfile.write(b"\xff\x00 not a status line\r\n\r\n")
    handler.close_connection = True


@pytest.mark.parametrize(
    "answer",
    [
        other_tag,
        other_range,
        other_size,
        other_length,
        an_encoding,
        all_of_it,
        busy,
        elsewhere,
        cut,
        no_http,
    ],
)
def test_another_answer_than_asked_for_is_given_up(s3, store, file, asked_library, answer):
    """[DUR-144] and the library asks again; after three it asks at once."""
    given = []

    def once_each(handler, key):
        if key != KEY or "X-Amz-Signature" not in handler.path:
            return False
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        given.append(handler.path)
        answer(handler, int(first), int(last) + 1)
        return True

    s3.fault = once_each
    for number in range(FAILURES + 2):
        start = number * 1000
        assert store.read_range(file, start, start + 5000) == DATA[start : start + 5000]
        assert asked_library[-1] == (start, start + 5000)
    assert len(given) == FAILURES


def test_a_failure_now_and_then_is_forgotten(s3, store, file, asked_library):
    count = [0]

    def every_second(handler, key):
        if key != KEY or "X-Amz-Signature" not in handler.path:
            return False
        count[0] += 1
        if count[0] % 2:
            busy(handler, 0, 0)
        return count[0] % 2 == 1

    s3.fault = every_second
    for start in range(0, 20_000, 1000):
        assert store.read_range(file, start, start + 1000) == DATA[start : start + 1000]
    assert len(asked_library) == 10


def head(handler):
    handler.send_header("Content-Range", f"bytes 0-99999/{len(DATA)}")
    handler.send_header("Content-Length", "100000")
    handler.send_header("ETag", tag_of(DATA))


def of_the_body(handler):
    handler.send_response(206)
    head(handler)
    handler.end_headers()


def of_a_header(handler):
    handler.send_response(206)
    handler.flush_headers()
    handler.wfile.write(b"X-Long: ")


def of_interim_answers(handler):
    handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize("begins", [of_the_body, of_a_header, of_interim_answers])
def test_a_trickle_ends_with_the_time_out(s3, file, asked_library, begins):
    """[DUR-144] Each byte comes in time, and the whole would take an hour."""

    def trickles(handler, key):
        if key != KEY or "X-Amz-Signature" not in handler.path:
            return False
        begins(handler)
        for _ in range(100):
            try:
                if begins is of_interim_answers:
                    begins(handler)
                else:
                    handler.wfile.write(b"x")
            except OSError:
                break
            time.sleep(0.1)
        handler.close_connection = True
        return True

    s3.fault = trickles
    store = ObjectStore("s3://bucket/logs", {**s3.settings, "timeout": "1s"})
    began = time.monotonic()
    assert store.read_range(file, 0, 100_000) == DATA[:100_000]
    assert 1 <= time.monotonic() - began < 8
    assert asked_library == [(0, 100_000)]


def test_a_pause_ends(s3, store, file, monkeypatch):
    """What was wrong for a moment is not so for the life of the store."""
    s3.fault = lambda handler, key: (
        key == KEY and "X-Amz" in handler.path and not busy(handler, 0, 0)
    )
    for _ in range(FAILURES):
        assert store._ranges.read_range(file, 0, 10) is None
    s3.fault = None
    assert store._ranges.read_range(file, 0, 10) is None
    later = time.monotonic() + PAUSE_SECONDS + 1
    monkeypatch.setattr(range_client.time, "monotonic", lambda: later)
    assert store._ranges.read_range(file, 0, 10) == DATA[:10]


def test_objects_that_are_gone_are_no_failures(s3, store, file):
    s3.objects["logs/two"] = DATA
    two = store.list_folder("").files["two"]
    del s3.objects["logs/two"]
    for _ in range(FAILURES + 1):
        assert store._ranges.read_range(two, 0, 10) is None
    assert store._ranges.read_range(file, 0, 10) == DATA[:10]


def test_a_connection_that_was_idle_for_long_is_not_used(s3, store, file, monkeypatch):
    """What lies in between may have forgotten it."""
    ports = set()
    s3.fault = lambda handler, _: ports.add(handler.client_address[1])
    store.read_range(file, 0, 10)
    later = time.monotonic() + range_client.IDLE_SECONDS + 1
    monkeypatch.setattr(range_client.time, "monotonic", lambda: later)
    store.read_range(file, 0, 10)
    assert len(ports) == 2


@pytest.mark.parametrize("url", ["http://user:word@127.0.0.1:9/x", "https://user@127.0.0.1:9/x"])
def test_an_address_with_a_user_is_left_to_the_library(file, monkeypatch, url):
    """Nothing of it is asked of a name server."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it was"))
    assert RangeClient(lambda _: url, 1.0, takes_http=True).read_range(file, 0, 10) is None


def test_nothing_is_sent_in_clear_where_that_is_not_allowed(store, file):
    client = RangeClient(store._ranges._sign, 1.0, takes_http=False)
    assert client.read_range(file, 0, 10) is None
    assert store._ranges.read_range(file, 0, 10) == DATA[:10]
    assert "X-Amz" not in repr(store._ranges._addresses)


def test_a_changed_or_vanished_object_is_the_error_of_the_library(s3, store, file):
    s3.objects[KEY] = DATA[::-1]
    with pytest.raises(LogTruncatedError, match=r"s3://bucket/logs/one: .*changed") as caught:
        store.read_range(file, 0, 10)
    assert "X-Amz" not in str(caught.value)
    assert SECRET not in str(caught.value)
    del s3.objects[KEY]
    with pytest.raises(LogNotFoundError, match="gone"):
        store.read_range(file, 0, 10)


def test_a_ctrl_c_ends_a_request_at_once(s3, file):
    """In the main thread, also where the server has sent nothing; the next read is right."""
    held = threading.Event()

    def holds(handler, key):
        if key == KEY and not held.is_set():
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            held.wait(20)
            handler.close_connection = True
            return True
        return False

    s3.fault = holds
    patient = ObjectStore("s3://bucket/logs", {**s3.settings, "timeout": "15s"})
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        patient.read_range(file, 0, 1000)
    assert time.monotonic() - began < 5
    held.set()
    assert patient.read_range(file, 0, 1000) == DATA[:1000]


def test_an_address_is_signed_once_and_again_before_it_ends(store, file, monkeypatch):
    signed = []
    sign = store._ranges._sign
    monkeypatch.setattr(store._ranges, "_sign", lambda path: signed.append(path) or sign(path))
    for _ in range(5):
        store.read_range(file, 0, 10)
    assert signed == ["one"]
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 301)
    store.read_range(file, 0, 10)
    assert signed == ["one", "one"]


def test_connections_are_closed_with_the_store(s3, file):
    """With its last reference: nothing waits for the collector."""
    store = ObjectStore("s3://bucket/logs", s3.settings)
    store.read_range(file, 0, 10)
    sock = store._ranges._idle[0][0].sock
    gc.disable()
    try:
        del store
        assert sock.fileno() == -1
    finally:
        gc.enable()


def test_a_client_that_cannot_sign_asks_the_library(store, file, monkeypatch, asked_library):
    def fails(*_):
        raise PermissionError

    monkeypatch.setattr("obstore.sign", fails)
    assert store.read_range(file, 0, 10) == DATA[:10]
    assert asked_library == [(0, 10)]


def test_what_a_signed_address_does_not_carry_is_left_to_the_library(s3, monkeypatch):
    for name in [name for name in os.environ if "proxy" in name.lower()]:
        monkeypatch.delenv(name)
    plain = {"allow_http": "true", "timeout": "30s"}
    assert is_plain({"region": "r"}, plain)
    assert not is_plain({}, {**plain, "proxy_url": "http://proxy"})
    assert not is_plain({}, {**plain, "root_certificate": "x"})
    assert not is_plain({"skip_signature": "true"}, plain)
    assert not is_plain({"aws_skip_signature": "true"}, plain)
    assert not is_plain({"sse_customer_key_base64": "x"}, plain)
    for name in ("HTTPS_PROXY", "http_proxy", "ALL_PROXY", "AWS_PROXY_URL", "AWS_SKIP_SIGNATURE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "true" if name == "AWS_SKIP_SIGNATURE" else "http://127.0.0.1:9")
            assert not is_plain({}, plain)
            assert ObjectStore("s3://bucket/logs", s3.settings)._ranges is None
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert is_plain({}, plain)


@pytest.mark.parametrize(
    ("named", "seconds"),
    [
        ("30s", 30),
        ("2.5s", 2.5),
        ("5 seconds", 5),
        ("0s", None),
        ("30", None),
        ("1m", None),
        ("soon", None),
    ],
)
def test_a_time_out_in_other_words_is_left_to_the_library(named, seconds):
    assert timeout_of({"timeout": named}) == seconds
    assert timeout_of({}) == range_client.TIMEOUT_SECONDS


def test_a_port_where_nothing_listens_is_left_to_the_library(file):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = RangeClient(lambda path: f"http://127.0.0.1:{port}/{path}", 1.0, takes_http=True)
    assert client.read_range(file, 0, 10) is None
