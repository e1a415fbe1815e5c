"""From a path or URL to the remote storage that is kept there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.remote.storage.segment_files import storage_place
from segstore.remote.storage.tiered_storage import TieredStorage
from segstore.remote.storage.writable_folder import WritableFolder
from segstore.remote.stores import require_package
from segstore.remote.urls import OBJECT_STORES, is_url, normal_url, scheme_of, shown_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Environment


def open_remote_storage(
    url: str | os.PathLike[str],
    settings: Mapping[str, str] | None = None,
    environment: Environment | None = None,
) -> TieredStorage:
    """Return remote storage in the layout of Kafka's ``LocalTieredStorage`` [TIER-95].

    Nothing is looked at, and nothing made, before the first call of it.

    Parameters
    ----------
    url : str or path
        A folder, or ``s3://bucket/logs``; ``gs``, ``az``, ``abfss`` and so on. The segments are in
        ``kafka-tiered-storage`` below it: a broker whose plug-in has it as its ``dir`` finds them,
        and so does ``segstore.open_bucket(url)``. It may name ``kafka-tiered-storage`` itself.
    settings : mapping of str to str
        Of an object store, as for ``segstore.open_bucket``; a folder has none.
    environment : Environment or None
        For tests: where local files are.

    Raises
    ------
    ImportError
        ``segstore[remote]`` is not installed.
    IllegalArgumentError
        A setting that is not known, or a URL that cannot be written to.
    """
    place, settings = os.fspath(url), settings or {}
    if not is_url(place):
        if settings:
            raise IllegalArgumentError(
                "remote storage in a folder has no settings",
                found=", ".join(sorted(settings)),
                expected="none",
            )
        place = os.path.abspath(place)  # noqa: PTH100 - links stay
        return TieredStorage(WritableFolder(storage_place(place), environment))
    if scheme_of(place) not in OBJECT_STORES:
        raise IllegalArgumentError(
            "segments cannot be copied to such a URL",
            found=shown_url(place),
            expected=f"a folder, or one of {', '.join(sorted(OBJECT_STORES))}",
        )
    require_package("obstore", place)
    from segstore.remote.storage.writable_object_store import WritableObjectStore

    place = storage_place(normal_url(place))
    return TieredStorage(WritableObjectStore(place, settings, environment))
