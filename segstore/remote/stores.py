"""From a URL to the store that reads it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from segstore.remote.file_system import FileSystem
from segstore.remote.object_store import ObjectStore
from segstore.remote.urls import OBJECT_STORES, normal_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.remote.remote_file import BucketStore


def open_store(url: str, settings: Mapping[str, str]) -> BucketStore:
    """Return the store of the directory *url*; nothing is asked of it yet.

    Raises
    ------
    ImportError
        A package is missing; the message names it.
    IllegalArgumentError
        A scheme or setting that is not known.
    """
    url = normal_url(url)
    is_object_store = scheme_of(url) in OBJECT_STORES
    require_package("obstore" if is_object_store else "fsspec", url)
    return ObjectStore(url, settings) if is_object_store else FileSystem(url, settings)


def require_package(package: str, url: str) -> None:
    """Check that what a URL needs is installed.

    Raises
    ------
    ImportError
        It is not; the message names it.
    """
    if find_spec(package) is None:
        message = f"{scheme_of(url)}:// needs {package}: pip install 'segstore[remote]'"
        raise ImportError(message)
