"""Which paths are URLs, what they are called in messages, and what is never said of them."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"})
"""Schemes of ``obstore``; every other one is for ``fsspec``."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/", re.ASCII | re.IGNORECASE)
_USER = re.compile(r"(//[^/?#@:]*):[^/?#@]*@")
_ONLY_USER = re.compile(r"^((?:https?|webdavs?)://)[^/?#@:]+@", re.IGNORECASE)
"""Where a token may stand; elsewhere it is a user's or a container's name."""
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_SECRET = re.compile(r"secret|pass|pwd|token|sas|key|credential|auth|account", re.IGNORECASE)
_NAMES_A_PLACE = re.compile(
    r"(?:AWS|AZURE|AZURITE|GOOGLE|FSSPEC)_.*(?:ENDPOINT|URL|REGION|ACCOUNT_NAME|EMULATOR)"
    r"|HADOOP_CONF_DIR",
    re.IGNORECASE,
)
"""Variables from which stores take what is not among the settings."""
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
    """Return *url* for messages: without password or token, nor what stands behind ``?``."""
    shown = _ONLY_USER.sub(rf"\1{_HIDDEN}@", _USER.sub(rf"\1:{_HIDDEN}@", url))
    return _QUERY.sub(f"?{_HIDDEN}", shown)


def secrets_in(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of *settings* that no message may show, by their names."""
    found = {value for name, value in settings.items() if _SECRET.search(name)}
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len)[::-1])


def place_key(url: str, settings: Mapping[str, str]) -> str:
    """Return what tells two places apart, as a hash: credentials do not, an account's name does.

    One variable of the environment more or less makes two of one place, never one of two.
    """
    place = {
        name: value
        for name, value in settings.items()
        if not _SECRET.search(name) or "account_name" in name
    }
    around = {name: value for name, value in os.environ.items() if _NAMES_A_PLACE.fullmatch(name)}
    told = url, sorted(place.items()), sorted(around.items())
    return hashlib.sha256(repr(told).encode(errors="surrogateescape")).hexdigest()


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with *secrets* made unreadable."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text
