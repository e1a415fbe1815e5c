"""Custom metadata of Aiven's plug-in: every field as it was written, and damaged ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segstore._core import write_varlong
from segstore.errors import CorruptLogError
from segstore.remote.tiered.custom_metadata import CustomMetadata, parse_custom_metadata
from tests.fuzz.mutations import anything_like, outcome
from tests.interop.message_writer import varint
from tests.kits.remote_log_events import compact

LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=40)


def custom_bytes(said, *, unknown=b""):
    """Return the section of tagged fields [RLM-5]."""
    fields = [
        (0, None if said.remote_size_bytes is None else write_varlong(said.remote_size_bytes)),
        (1, None if said.key_prefix is None else compact(said.key_prefix.encode())),
        (2, None if said.main_key is None else compact(said.main_key.encode())),
        (7, unknown or None),
    ]
    there = [(tag, data) for tag, data in fields if data is not None]
    return varint(len(there)) + b"".join(
        varint(tag) + varint(len(data)) + data for tag, data in there
    )


@given(
    said=st.builds(CustomMetadata, st.none() | LONG, st.none() | TEXT, st.none() | TEXT),
    unknown=st.binary(max_size=9),
)
def test_custom_metadata_are_read_as_they_were_written(said, unknown):
    """[RLM-5] Any of the three fields, and others are passed over."""
    assert parse_custom_metadata(custom_bytes(said, unknown=unknown)) == said


@given(
    data=anything_like(
        st.builds(CustomMetadata, st.none() | LONG, st.none() | TEXT, st.none() | TEXT).map(
            custom_bytes
        )
    )
)
def test_any_custom_metadata_are_read_or_refused(data):
    """[RLM-5] They may be those of another plug-in."""
    said, error = outcome(lambda: parse_custom_metadata(data), CorruptLogError)
    assert (said is None) != (error is None)
