"""A static server of ranges, as its own process: files by ``sendfile``, listings as S3 has them.

``python -m benchmarks.range_server FOLDER`` prints its port. ``GET /ranges`` gives the ranges of
objects that were asked for since the last such request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "bucket"
MODIFIED = "Fri, 02 Jan 2026 03:04:05 GMT"


class Asked(NamedTuple):
    """A range of an object: bytes ``[start, end)``."""

    path: str
    start: int
    end: int


class Handler(BaseHTTPRequestHandler):
    """Answers GET."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root: Path
    asked: list[Asked]

    def do_GET(self) -> None:
        """Send a listing, a range, or what was asked for."""
        url = urlsplit(self.path)
        if url.path == "/ranges":
            told, self.asked[:] = self.asked[:], []
            self._answer(200, json.dumps(told).encode())
            return
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if key:
            self._send_range(key, url.path)
        else:
            self._list(parse_qs(url.query).get("prefix", [""])[0])

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_range(self, key: str, path: str) -> None:
        with (self.root / key).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, size)
            self.asked.append(Asked(path, start, end))  # without a signature
            self.send_response(206)
            self.send_header("Content-Length", str(end - start))
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            self.send_header("ETag", f'"{size}"')
            self.send_header("Last-Modified", MODIFIED)
            self.end_headers()
            self.wfile.flush()
            while start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def _list(self, prefix: str) -> None:
        folder = self.root / prefix
        body = ""
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = escape(f"{prefix}{entry.name}")
            if entry.is_dir():
                body += f"<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>"
                continue
            size = entry.stat().st_size
            body += (
                f"<Contents><Key>{name}</Key><Size>{size}</Size>"
                f"<LastModified>2026-01-02T03:04:05.000Z</LastModified>"
                f"<ETag>&quot;{size}&quot;</ETag></Contents>"
            )
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{body}</ListBucketResult>".encode(),
        )

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class RangeServer:
    """A running one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"s3://{BUCKET}"
        self.settings = {
            "endpoint": f"http://127.0.0.1:{port}",
            "access_key_id": "id",
            "secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": "true",
        }

    def asked(self) -> list[Asked]:
        """Return the ranges since the last call."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/ranges")
        found = json.loads(connection.getresponse().read())
        connection.close()
        return [Asked(*one) for one in found]

    def fetch(self, ranges: list[Asked]) -> float:
        """Fetch ranges as a plain client does, by one connection; return the bytes."""
        connection = HTTPConnection("127.0.0.1", self.port)
        total = 0
        for path, start, end in ranges:
            connection.request("GET", path, headers={"Range": f"bytes={start}-{end - 1}"})
            total += len(connection.getresponse().read())
        connection.close()
        return total

    def fetch_with_obstore(self, ranges: list[Asked]) -> float:
        """Fetch ranges with the library that segstore uses, alone; return the bytes."""
        from obstore.store import S3Store

        client = {"allow_http": True}
        config = {name: one for name, one in self.settings.items() if name != "allow_http"}
        store = S3Store(BUCKET, config=config, client_options=client)
        total = 0
        for path, start, end in ranges:
            key = unquote(path).removeprefix(f"/{BUCKET}/")
            total += len(store.get(key, options={"range": (start, end)}).bytes())
        return total


@contextmanager
def range_server(folder: Path) -> Iterator[RangeServer]:
    """Run one that serves *folder*."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield RangeServer(int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Serve until killed."""
    handler = type("Serving", (Handler,), {"root": Path(sys.argv[1]), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
