"""Names what lies in a bucket where no topic of the plug-in does [VER-4, VER-5]."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from segstore.errors import LogNotFoundError, SegstoreError, UnsupportedFormatError
from segstore.remote.tiered.object_key import parse_topic_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.remote.remote_file import Folder, RemoteStore

_METADATA: Final = "metadata"
_OF_ICEBERG: Final = (".puffin", ".metadata.json")
_MOST_FOLDERS: Final = 20
"""So many are looked into, and named."""


def no_topics_error(store: RemoteStore, root: Folder, key_prefix: str) -> SegstoreError:
    """Return the error for a bucket whose *root* holds something, and no topic."""
    for table in _iceberg_tables(store, root):
        return UnsupportedFormatError(
            "this is an Iceberg table, as the plug-in writes it with segment.format=iceberg: any"
            " engine for Iceberg reads it, and segstore does not",
            file=f"{store.url}/{table}".rstrip("/"),
            found="metadata of Iceberg",
            expected="segments as the plug-in writes them with segment.format=kafka",
        )
    names = [f"{name}/" for name in root.folders] + sorted(root.files)
    deeper, above = next(_deeper(store, root), None), folder_above_topics(store.url)
    return LogNotFoundError(
        "no topic of Aiven's plug-in lies here"
        + (f" with the prefix {key_prefix!r}" if key_prefix else "")
        + (f"; one lies below {deeper}/, which belongs into the URL" if deeper else "")
        + (f"; this is a part of one topic, and the bucket is {above}" if above else ""),
        file=store.url,
        found=", ".join(names[:_MOST_FOLDERS]) + (", …" if len(names) > _MOST_FOLDERS else ""),
        expected="folders <topic>-<topic id>",
    )


def folder_above_topics(url: str) -> str | None:
    """Return what holds the topics, if *url* is the folder of a topic, or of its partition."""
    above, _, name = url.rstrip("/").rpartition("/")
    if name.isdecimal():
        above, _, name = above.rpartition("/")
    return None if parse_topic_folder(name) is None else above


def _iceberg_tables(store: RemoteStore, root: Folder) -> Iterator[str]:
    """Yield the folders of tables: the root itself, or what lies in it."""
    if _METADATA in root.folders and _is_of_iceberg(store, _METADATA):
        yield ""
    for name in islice(root.folders, _MOST_FOLDERS):
        if _METADATA in store.list_folder(name).folders and _is_of_iceberg(
            store, f"{name}/{_METADATA}"
        ):
            yield name


def _is_of_iceberg(store: RemoteStore, folder: str) -> bool:
    return any(name.endswith(_OF_ICEBERG) for name in store.list_folder(folder).files)


def _deeper(store: RemoteStore, root: Folder) -> Iterator[str]:
    for name in islice(root.folders, _MOST_FOLDERS):
        if any(parse_topic_folder(one) is not None for one in store.list_folder(name).folders):
            yield name
