"""Ranges of objects at addresses that are signed: an HTTP client of Python, into memory of ours.

The library that knows the stores has the credentials. It signs the address of an object, lists, and
fetches whatever this client does not: an answer that is not just what was asked for is given up,
and the library is asked again. So it alone repeats a request, waits, and has the error of a store.

A range costs half the CPU time so. The library receives an answer in pieces, in memory that is new
to the process, and copies them together. Here the system writes it into the memory where it stays.

THREADS  any number may read; each request has a connection of its own meanwhile.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from contextlib import suppress
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from segstore._core import RangeBytes
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from socket import socket

    from _typeshed import WriteableBuffer

    from segstore.remote.remote_file import RemoteFile

SIGNED_SECONDS: Final = 330
"""So long an address is good."""
USED_SECONDS: Final = 300
"""So long it is used: then the credentials may be other ones."""
MOST_ADDRESSES: Final = 256
MOST_IDLE: Final = 8
"""Connections that are kept open for the next requests."""
IDLE_SECONDS: Final = 15
"""So long each: what lies in between may forget one without a word."""
CONNECT_SECONDS: Final = 1.0
"""For each address of a host: the library tries several at once."""
TIMEOUT_SECONDS: Final = 30.0
"""Of a request, as the library has it where the user names none."""
FAILURES: Final = 3
"""One after another, and the library is asked at once for `PAUSE_SECONDS`."""
PAUSE_SECONDS: Final = 60
_PARTIAL_CONTENT: Final = 206
_OF_THE_OBJECT: Final = {404, 412}
"""It is gone, or another one: no failure of this client."""
_SECONDS: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?(?:s|sec|secs|second|seconds)")


class _Address(NamedTuple):
    is_secure: bool
    host: str
    target: str
    """Path and query, with a signature."""
    until: float

    def __repr__(self) -> str:
        return self.host  # no message shows the signature


class RangeClient:
    """The client of one store.

    Parameters
    ----------
    sign : callable
        Gives the URL at which an object can be had for `SIGNED_SECONDS`, by its path. It holds
        nothing that holds this client: connections are closed with its last reference.
    timeout_seconds : float
        Of a request, from its first byte to the last one of the answer.
    takes_http : bool
        Also without TLS.
    """

    def __init__(
        self, sign: Callable[[str], str], timeout_seconds: float, *, takes_http: bool
    ) -> None:
        self._sign, self._timeout, self._takes_http = sign, timeout_seconds, takes_http
        self._addresses: dict[str, _Address] = {}
        self._idle: list[tuple[HTTPConnection, float]] = []
        """With the time until which each may be used."""
        self._failures, self._paused_until = 0, 0.0
        weakref.finalize(self, _close_all, self._idle)

    def read_range(self, file: RemoteFile, start: int, end: int) -> memoryview | None:
        """Return bytes ``[start, end)`` of *file*, as it was listed.

        Returns
        -------
        memoryview or None
            Read-only, shape ``(end - start,)``, format ``B``. None: whatever the reason is, the
            library finds it out.
        """
        if time.monotonic() < self._paused_until:
            return None
        with suppress(OSError, HTTPException, ValueError, SegstoreError):  # the library has them
            status, found = self._ask(self._address(file.path), file, start, end)
            if found is not None:
                self._failures = 0
                return found
            if status in _OF_THE_OBJECT:
                return None
        self._addresses.pop(file.path, None)
        self._failures += 1
        if self._failures >= FAILURES:
            self._failures, self._paused_until = 0, time.monotonic() + PAUSE_SECONDS
        return None

    def _address(self, path: str) -> _Address:
        now = time.monotonic()
        found = self._addresses.get(path)
        if found is None or found.until < now:
            url = urlsplit(self._sign(path))
            if "@" in url.netloc or not (url.scheme == "https" or self._takes_http):
                raise ValueError("an address for the library")
            target = f"{url.path}?{url.query}" if url.query else url.path
            found = _Address(url.scheme == "https", url.netloc, target, now + USED_SECONDS)
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            self._addresses[path] = found
        return found

    def _ask(
        self, address: _Address, file: RemoteFile, start: int, end: int
    ) -> tuple[int, memoryview | None]:
        """Return the status of an answer, and what it holds if it is what was asked for."""
        headers = {"Range": f"bytes={start}-{end - 1}", "If-Match": str(file.identity)}
        connection, response = self._answered(address, headers)
        found = None
        try:
            if _is_asked_for(response, file, start, end):
                filled = RangeBytes.filled(end - start, start, response.readinto)
                if response.isclosed():  # its length was that of the range
                    found = memoryview(filled)
        finally:
            if found is not None and len(self._idle) < MOST_IDLE:
                self._idle.append((connection, time.monotonic() + IDLE_SECONDS))
            else:  # also after a Ctrl-C
                connection.close()
        return response.status, found

    def _answered(
        self, address: _Address, headers: dict[str, str]
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Return the answer, and the connection on which it comes."""
        until = time.monotonic() + self._timeout
        while True:
            connection = self._kept()
            is_kept = connection is not None
            if connection is None:
                connection = _connection(address)
            connection.response_class = partial(_response, until)  # type: ignore[assignment]
            try:
                connection.request("GET", address.target, headers=headers)
                return connection, connection.getresponse()
            except BaseException as error:
                connection.close()
                if not (is_kept and isinstance(error, ConnectionError)):
                    raise  # else the server has closed a connection that was idle

    def _kept(self) -> HTTPConnection | None:
        """Return a connection of an earlier request, which may be used again."""
        while True:
            try:
                connection, until = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() < until:
                return connection
            connection.close()


class _UntilThen(RawIOBase):
    """What a socket receives until a time: no trickle takes longer."""

    def __init__(self, sock: socket, until: float) -> None:
        self._sock, self._until = sock, until
        self._stream = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, target: WriteableBuffer) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._stream.readinto(target)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _response(until: float, sock: socket, **settings: Any) -> HTTPResponse:
    """Return an answer that ends in time. Of a socket it asks for a file alone."""
    received = BufferedReader(_UntilThen(sock, until))
    limited: Any = SimpleNamespace(makefile=lambda _mode: received)
    return HTTPResponse(limited, **settings)


def _connection(address: _Address) -> HTTPConnection:
    if address.is_secure:
        return HTTPSConnection(address.host, timeout=CONNECT_SECONDS, context=_trusted())
    return HTTPConnection(address.host, timeout=CONNECT_SECONDS)


def timeout_of(client_settings: Mapping[str, str]) -> float | None:
    """Return the time-out that the user has set for requests, in seconds; None: in other words."""
    named = client_settings.get("timeout")
    if named is None:
        return TIMEOUT_SECONDS
    found = _SECONDS.fullmatch(str(named).strip())
    return float(found[1]) or None if found else None


def is_plain(settings: Mapping[str, str], client_settings: Mapping[str, str]) -> bool:
    """Whether a signed address is all that a request needs.

    No proxy stands in between, the library's client has no settings that another one does not
    know, there are credentials to sign with, and no keys of the user decrypt.

    Parameters
    ----------
    settings, client_settings : mapping of str to str
        Of the store, and of its HTTP client.
    """
    names = {name.lower() for name in (*settings, *os.environ)}
    return client_settings.keys() <= {"allow_http", "timeout"} and not any(
        ("proxy" in name and name != "no_proxy") or "skip_signature" in name or "customer" in name
        for name in names
    )


def _is_asked_for(response: HTTPResponse, file: RemoteFile, start: int, end: int) -> bool:
    return (
        response.status == _PARTIAL_CONTENT
        and response.length == end - start
        and response.getheader("Content-Range") == f"bytes {start}-{end - 1}/{file.size_bytes}"
        and response.getheader("ETag") == file.identity
        and response.getheader("Content-Encoding", "identity") == "identity"
    )


@cache
def _trusted() -> ssl.SSLContext:
    """Return who is trusted; it takes 20 ms to read that."""
    from ssl import create_default_context

    return create_default_context()


def _close_all(idle: list[tuple[HTTPConnection, float]]) -> None:
    for connection, _ in idle:
        connection.close()
