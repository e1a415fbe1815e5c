"""mypy --strict finds the slips that a user makes, and nothing in what is right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.config.log_config import LogConfig, LogSettings
from segstore.log.open_options import OpenKeywords

pytest.importorskip("mypy")

CODE = Path(__file__).parent / "user_code.py"
ROOT = CODE.parents[2]


def test_slips_of_users_are_errors_of_mypy():
    """[data/15] Misspelt keywords, wrong literals, text as records; one run over one file.

    It uses what the check of the project's own types has cached, under the same settings.
    Names of columns stay text: a list of them is often made elsewhere. So does ``durability``, for
    ``messages=N``.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(CODE.relative_to(ROOT))],
        cwd=ROOT,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = CODE.read_text().splitlines()
    expected = {
        (number, line.partition("# expect: ")[2])
        for number, line in enumerate(lines, 1)
        if "# expect: " in line
    }
    found = re.findall(r"user_code\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)

    assert {(int(number), code) for number, code in found} == expected, done.stdout + done.stderr


def test_the_typed_keywords_are_the_fields_of_the_settings():
    assert set(LogSettings.__annotations__) == set(LogConfig.__annotations__)
    assert set(OpenKeywords.__annotations__) > set(LogSettings.__annotations__)


@pytest.mark.parametrize("door", [segstore.open, segstore.open_dir], ids=["open", "open_dir"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("durabilty", "durability"),
        ("recover", "recovery"),
        ("readonly", "read_only"),
        ("checksum_sidecars", "checksum_sidecar"),
        ("segment_bites", "segment_bytes"),
    ],
)
def test_a_misspelt_keyword_is_told_which_was_meant(tmp_path, door, name, meant):
    with pytest.raises(segstore.IllegalArgumentError, match=name) as caught:
        door(tmp_path / "typo-0", **{name: "x"})

    assert caught.value.expected == meant
    assert not list(tmp_path.iterdir())
