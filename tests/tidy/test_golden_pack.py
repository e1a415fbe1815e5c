"""The packed choice: small enough, and the cases with everything that belongs to them."""

from __future__ import annotations

import tarfile

from tests.interop.pack_golden import (
    BUCKET_CHOICE,
    BUCKET_PACK_LIMIT_BYTES,
    CHOICE,
    PACK_LIMIT_BYTES,
    SAMPLE,
    SAMPLE_LIMIT_BYTES,
    TIERED_CHOICE,
    TIERED_PACK_LIMIT_BYTES,
)
from tests.kits.golden import BUCKET_PACK, PACK, TIERED_PACK


def test_the_packs_stay_small():
    """They are in every clone, the sample in every wheel."""
    assert PACK.stat().st_size <= PACK_LIMIT_BYTES
    assert SAMPLE.stat().st_size <= SAMPLE_LIMIT_BYTES
    assert BUCKET_PACK.stat().st_size <= BUCKET_PACK_LIMIT_BYTES
    assert TIERED_PACK.stat().st_size <= TIERED_PACK_LIMIT_BYTES


def test_the_pack_holds_the_choice_and_its_dot_files():
    """A marker that a tool for packing leaves out would turn clean stops into crashes."""
    with tarfile.open(PACK) as archive:
        names = set(archive.getnames())

    assert {name.partition("/")[0] for name in names} == set(CHOICE)
    assert {f"{case}/case.json" for case in CHOICE} <= names
    assert "plain-many-segments/data/.kafka_cleanshutdown" in names
    assert "kill9-plain/data/.lock" in names
    assert "kill9-plain/data/.kafka_cleanshutdown" not in names


def test_the_pack_of_buckets_holds_the_choice(packed_buckets):
    """With keys, where a bucket is encrypted."""
    assert {path.name for path in packed_buckets.iterdir()} == set(BUCKET_CHOICE)
    assert all((packed_buckets / case / "case.json").is_file() for case in BUCKET_CHOICE)
    assert list(packed_buckets.glob("*/keys/*.private.pem"))


def test_the_pack_of_storages_holds_the_choice():
    """And parts of the cases alone."""
    with tarfile.open(TIERED_PACK) as archive:
        names = set(archive.getnames())

    assert {name.partition("/")[0] for name in names} == set(TIERED_CHOICE)
    assert {f"{case}/case.json" for case in TIERED_CHOICE} <= names
    assert {f"{case}/remote/kafka-tiered-storage" for case in TIERED_CHOICE} <= names


def test_options_lead_to_the_material(golden):
    """``--golden`` or the pack: the same layout."""
    cases = [path for path in golden.iterdir() if path.is_dir()]

    assert cases
    assert all((case / "case.json").is_file() for case in cases)
