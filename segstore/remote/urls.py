"""Which paths are URLs, what they are called in messages, and what is never said of them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"})
"""Schemes of ``obstore``; every other one is for ``fsspec``."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/", re.ASCII | re.IGNORECASE)
_USER = re.compile(r"(//[^/?#@:]*):[^/?#@]*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_SECRET = re.compile(r"secret|password|token|sas|key|credential|auth|account", re.IGNORECASE)
_SHORTEST_SECRET: Final = 4
_HIDDEN: Final = "***"


def is_url(path: str) -> bool:
    """Whether *path* names something that is not on a local disk; ``file:`` is a path."""
    return scheme_of(path) not in {"", "file"}


def scheme_of(path: str) -> str:
    """Return the scheme of a URL in lower case, empty for a path."""
    match = _SCHEME.match(path)
    return "" if match is None else match[1].lower()


def normal_url(url: str) -> str:
    """Return *url* with ``://`` behind its scheme, as ``dbfs:/logs`` has not, and no last slash."""
    match = _SCHEME.match(url)
    if match is None:
        return url
    rest = url[match.end(1) + 1 :].rstrip("/")
    if scheme_of(url) in OBJECT_STORES:  # pathlib makes one slash of two
        rest = f"//{rest.lstrip('/')}"
    return f"{match[1].lower()}:{rest if rest.startswith('//') else f'//{rest}'}"


def shown_url(url: str) -> str:
    """Return *url* for messages: without a password, and without what stands behind ``?``."""
    return _QUERY.sub(f"?{_HIDDEN}", _USER.sub(rf"\1:{_HIDDEN}@", url))


def secrets_in(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of *settings* that no message may show, by their names."""
    found = {value for name, value in settings.items() if _SECRET.search(name)}
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len)[::-1])


def place_key(url: str, settings: Mapping[str, str]) -> str:
    """Return what tells two places apart, as a hash: credentials do not, an account's name does."""
    place = {
        name: value
        for name, value in settings.items()
        if not _SECRET.search(name) or "account_name" in name
    }
    return hashlib.sha256(repr((url, sorted(place.items()))).encode()).hexdigest()


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with *secrets* made unreadable."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text
