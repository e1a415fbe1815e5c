"""An S3 of a few lines, which can fail: listings, and ranges of objects with their entity tags.

What a correct store answers is asked of moto; this one is for what a network or a store does else.
"""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUCKET = "bucket"
SECRET = "a-secret-that-nobody-may-see"
SETTINGS = {
    "access_key_id": "key-id-of-a-test",
    "secret_access_key": SECRET,
    "region": "us-east-1",
    "allow_http": "true",
    "max_retries": "2",
    "retry_timeout": "10",
    "timeout": "2s",
}


class Store:
    """Objects by key, what was asked for, and what goes wrong.

    Attributes
    ----------
    objects : dict
        Bytes by key, below the bucket.
    gets : list of str
        Keys of the objects that were asked for.
    sent_bytes : int
        Of objects.
    fault : callable or None
        Given the handler and a key, answers in its own way and returns True; key "" is a listing.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.gets: list[str] = []
        self.lists = 0
        self.sent_bytes = 0
        self.fault: Callable[[Handler, str], bool] | None = None
        self.endpoint = ""

    def put(self, directory: Path, prefix: str = "logs") -> None:
        """Put what is in *directory* under *prefix*."""
        for file in directory.rglob("*"):
            if file.is_file():
                self.objects[f"{prefix}/{file.relative_to(directory)}"] = file.read_bytes()

    @property
    def settings(self) -> dict[str, str]:
        return {**SETTINGS, "endpoint": self.endpoint}


class Handler(BaseHTTPRequestHandler):
    """Answers GET of the bucket and of objects, PUT of small objects, and deletions."""

    protocol_version = "HTTP/1.1"
    store: Store
    body = b""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # the client has given up waiting
            self.close_connection = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if self.store.fault is not None and self.store.fault(self, key):
            return
        if key:
            self._object(key)
        else:
            query = parse_qs(url.query)
            self._list(query.get("prefix", [""])[0])

    def do_PUT(self) -> None:
        key, body = self._key_and_body()
        if self.store.fault is None or not self.store.fault(self, key):
            self.put(key, body)

    def put(self, key: str, body: bytes) -> None:
        """Keep an object and say so."""
        self.store.objects[key] = body
        self.answer(200, b"", ETag=tag_of(body))

    def do_POST(self) -> None:
        """Delete objects: the library asks for it so."""
        _, body = self._key_and_body()
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode())]
        if self.store.fault is not None and self.store.fault(self, keys[0]):
            return
        for key in keys:
            self.store.objects.pop(key, None)
        found = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{found}</DeleteResult>".encode())

    def _key_and_body(self) -> tuple[str, bytes]:
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")
        self.body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return key, self.body

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _object(self, key: str) -> None:
        self.store.gets.append(key)
        data = self.store.objects.get(key)
        if data is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        tag = tag_of(data)
        if self.headers.get("If-Match", tag) != tag:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        if "Range" not in self.headers:
            self.answer(200, data, ETag=tag, **MODIFIED)
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1]
        self.store.sent_bytes += len(part)
        content = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self.answer(206, part, Content_Range=content, ETag=tag, **MODIFIED)

    def _list(self, prefix: str) -> None:
        self.store.lists += 1
        self.list(prefix, self.store.objects)

    def list(self, prefix: str, objects: dict[str, bytes]) -> None:
        """Answer as if the bucket held *objects*."""
        names = [key for key in sorted(objects) if key.startswith(prefix)]
        files = [key for key in names if "/" not in key.removeprefix(prefix)]
        folders = dict.fromkeys(
            prefix + key.removeprefix(prefix).partition("/")[0] + "/"
            for key in names
            if "/" in key.removeprefix(prefix)
        )
        body = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[key])}</Size>"
            f"<LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<ETag>{escape(tag_of(objects[key]))}</ETag></Contents>"
            for key in files
        )
        body += "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{body}</ListBucketResult>"
        self.answer(200, text.encode(), Content_Type="application/xml")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


MODIFIED = {"Last_Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}


def tag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


@contextmanager
def served() -> Iterator[Store]:
    """Serve a store on a port of this machine."""
    store = Store()
    handler = type("Handler", (Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
