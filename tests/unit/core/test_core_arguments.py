"""Objects of the core whose arguments were wrong were never made: given back without harm."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, itertools, segstore._core as core
wrong = (None, "", "\\ud800", b"", -1, 2**63, object(), [])
kinds = [kind for name, kind in vars(core).items() if isinstance(kind, type)]
assert len(kinds) > 30
made = refused = 0
for kind in kinds:
    if issubclass(kind, tuple | BaseException):
        continue
    for count in range(4):
        for arguments in itertools.product(wrong, repeat=count):
            try:
                kind(*arguments)
                made += 1
            except Exception:
                refused += 1
gc.collect()
print(made, refused)
"""


def test_wrong_arguments_of_every_class_end_in_exceptions():
    """[DUR-92] a descriptor 0 or an environment NULL is not closed by an object that has none."""
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    made, refused = map(int, done.stdout.split())
    assert refused > made


@pytest.mark.parametrize("call", ["open", "open_dir"])
def test_a_path_that_has_no_bytes_is_refused(call):
    """[DUR-99] half of a surrogate pair is in no file name."""
    program = (
        "import segstore\n"
        "for path in ('\\ud800-0', '\\ud800/q-0', b'a-0'.decode() + '\\udfff'):\n"
        "    for read_only in (False, True):\n"
        "        try:\n"
        f"            segstore.{call}(path, read_only=read_only)\n"
        "        except segstore.IllegalArgumentError as error:\n"
        "            assert 'surrogate' in str(error), error\n"
        "        else:\n"
        "            raise AssertionError(path)\n"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
