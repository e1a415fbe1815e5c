"""Where golden directories are: named on the command line, or the packed choice.

The folder on the command line is anyone's: its cases are chosen by what is in them, by
`tests.kits.golden_kinds`. A test that needs particular bytes takes them from the packed choice,
whose names are the project's own.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

PACK = Path(__file__).parents[1] / "interop" / "golden.tar.xz"
BUCKET_PACK = PACK.with_name("golden_buckets.tar.xz")
TIERED_PACK = PACK.with_name("golden_tiered.tar.xz")
_UNPACKED = pytest.StashKey[Path]()
_UNPACKED_BUCKETS = pytest.StashKey[Path]()
_UNPACKED_TIERED = pytest.StashKey[Path]()


def golden_root(config: pytest.Config) -> Path:
    """Return the folder of cases: ``--golden``, else the packed choice.

    ``--golden`` may be read-only: tests copy what they change.
    """
    given = config.getoption("--golden")
    return packed_root(config) if given is None else _existing_folder(given, "--golden")


def packed_root(config: pytest.Config) -> Path:
    """Return the packed choice, whatever ``--golden`` says; unpacked once a session."""
    if _UNPACKED not in config.stash:
        config.stash[_UNPACKED] = _unpack(config, PACK, "golden")
    return config.stash[_UNPACKED]


def bucket_root(config: pytest.Config) -> Path:
    """Return the folder of golden buckets: ``--golden-buckets``, else the packed choice."""
    given = config.getoption("--golden-buckets")
    return packed_buckets(config) if given is None else _existing_folder(given, "--golden-buckets")


def packed_buckets(config: pytest.Config) -> Path:
    """Return the packed buckets, whatever ``--golden-buckets`` says; unpacked once a session."""
    if _UNPACKED_BUCKETS not in config.stash:
        config.stash[_UNPACKED_BUCKETS] = _unpack(config, BUCKET_PACK, "golden_buckets")
    return config.stash[_UNPACKED_BUCKETS]


def tiered_root(config: pytest.Config) -> Path:
    """Return the folder of remote storages: ``--golden-tiered``, else the packed choice."""
    given = config.getoption("--golden-tiered")
    return packed_tiered(config) if given is None else _existing_folder(given, "--golden-tiered")


def packed_tiered(config: pytest.Config) -> Path:
    """Return the packed storages, whatever ``--golden-tiered`` says; unpacked once a session."""
    if _UNPACKED_TIERED not in config.stash:
        config.stash[_UNPACKED_TIERED] = _unpack(config, TIERED_PACK, "golden_tiered")
    return config.stash[_UNPACKED_TIERED]


def _existing_folder(given: str, option: str) -> Path:
    folder = Path(given).resolve()
    if not folder.is_dir():
        message = f"{option}: {given} is not a folder"
        raise pytest.UsageError(message)
    return folder


def _unpack(config: pytest.Config, pack: Path, name: str) -> Path:
    """Unpack into the session's own temporary folder, which pytest removes after some sessions."""
    # pytest has no public way to the base of tmp_path_factory while tests are being collected.
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    target = base / name
    with tarfile.open(pack) as archive:
        # Python 3.11.2 has no filters; the pack is the project's own.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target)
    return target
