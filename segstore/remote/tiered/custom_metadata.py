"""What Aiven's plug-in notes of a copy: the custom bytes of its metadata [RLM-5]."""

from __future__ import annotations

from typing import NamedTuple

from segstore._core import read_uvarint, read_varlong
from segstore.errors import CorruptLogError, SegstoreError


class CustomMetadata(NamedTuple):
    """What the plug-in was set to note of a copy; None: it was not [RLM-5].

    Attributes
    ----------
    remote_size_bytes : int or None
        Stored bytes of the three objects.
    key_prefix : str or None
        ``rsm.config.key.prefix`` at the time of the copy.
    main_key : str or None
        Key without that prefix and without suffix.
    """

    remote_size_bytes: int | None = None
    key_prefix: str | None = None
    main_key: str | None = None


def parse_custom_metadata(data: bytes) -> CustomMetadata:
    """Parse the custom bytes of Aiven's plug-in; fields that are not known are passed over [RLM-5].

    Raises
    ------
    CorruptLogError
        They are of another plug-in, or damaged.
    """
    try:
        fields, rest = _tagged_fields(data)
        if rest:
            raise _wrong_custom_metadata(f"{len(rest)} bytes after the fields")
        size = _varlong(fields[0]) if 0 in fields else None
        prefix, key = (_compact_string(fields[tag]) if tag in fields else None for tag in (1, 2))
    except CorruptLogError:
        raise
    except (SegstoreError, UnicodeDecodeError) as error:
        raise _wrong_custom_metadata(str(error)) from error
    return CustomMetadata(size, prefix, key)


def _tagged_fields(data: bytes) -> tuple[dict[int, bytes], bytes]:
    fields: dict[int, bytes] = {}
    count, rest = _uvarint(data)
    for _ in range(count):
        tag, rest = _uvarint(rest)
        size, rest = _uvarint(rest)
        if size > len(rest):
            raise _wrong_custom_metadata(f"a field of {size} bytes, {len(rest)} are left")
        fields[tag], rest = rest[:size], rest[size:]
    return fields, rest


def _uvarint(data: bytes) -> tuple[int, bytes]:
    value, size = read_uvarint(data)
    return value, data[size:]


def _varlong(data: bytes) -> int:
    value, size = read_varlong(data)
    if size != len(data):
        raise _wrong_custom_metadata(f"a number of {size} bytes in {len(data)}")
    return value


def _compact_string(data: bytes) -> str:
    size, rest = _uvarint(data)
    if size - 1 != len(rest):
        raise _wrong_custom_metadata(f"a string of {size - 1} bytes in {len(rest)}")
    return rest.decode()


def _wrong_custom_metadata(found: str) -> CorruptLogError:
    return CorruptLogError(
        "the custom metadata of a segment cannot be read",
        found=found,
        expected="fields as Aiven's plug-in writes them",
    )
