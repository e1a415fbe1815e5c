"""More segments than a process may have descriptors: sealed ones give theirs back."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import segstore

path, durability, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {"internal_segment_bytes": 150, "segment_ms": None}
answers = []

def open_files():
    return len(os.listdir("/proc/self/fd"))

def check(log, end):
    most = 0
    for number, record in enumerate(log):
        if number % 100 == 0:
            most = max(most, open_files())
    by_time = [log.offset_for_timestamp(1_000_000 + n) for n in (0, end // 2, end - 1)]
    answers.append([
        number + 1 == end, by_time == [0, end // 2, end - 1], most < 200, str(log.verify()),
    ])

log = segstore.open(path, durability=durability, **settings)
most = 0
for number in range(count):
    log.append([(1_000_000 + number, b"key", b"v" * 50)])
    if number % 50 == 0:
        most = max(most, open_files())
assert len(log.segments()) == count
assert most < 240, most
check(log, count)
log.append([(1_000_000 + count + n, b"key", b"v" * 50) for n in range(count // 4)])  # one call
end = count + count // 4
reader = segstore.open(path, read_only=True)
check(reader, end)
reader.close()
log.close_quietly()
with segstore.open(path, **settings) as log:  # recovers
    check(log, end)
    log.truncate_to(end - 100)
    log.append([(1_000_000 + end - 100 + n, b"key", b"v" * 50) for n in range(100)])
    check(log, end)
with segstore.open(path, **settings) as log:
    assert log.report.clean
    check(log, end)
    log.delete_records(end - 10)
    assert len(log.segments()) == 10
print(json.dumps([answers, open_files()]))
"""


def run(path, durability: str, count: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(path), durability, str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 0, ran.stderr
    answers, left_open = json.loads(ran.stdout)
    assert len(answers) == 5
    for every_record, by_time, few_files, verified in answers:
        assert (every_record, by_time, few_files) == (True, True, True)
        assert "all good" in verified, verified
    assert left_open < 20


def test_150_segments_and_256_descriptors(tmp_path):
    """[DUR-31] no call runs out of them, in one log or two handles."""
    run(tmp_path / "topic-0", "none", 150)


@pytest.mark.slow
def test_thousands_of_segments_and_256_descriptors(tmp_path, pytestconfig):
    """[DUR-31] 1,000 in CI, 5,000 with --slow."""
    run(tmp_path / "topic-0", "none", 5000 if pytestconfig.getoption("--slow") else 1000)
