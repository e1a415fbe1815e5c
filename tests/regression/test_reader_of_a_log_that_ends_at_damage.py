"""``cat`` of a copied directory ended at damage, exit code 0 and no word; ``ls`` showed no mark.

Without checkpoints nobody knows what had been synced, so a reader ends where a writer would cut.
Records that follow, in the same file too, were not mentioned by the report of the open.
"""

from __future__ import annotations

import json

import pytest

from segstore import cli
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    LogDirectory,
    append_bytes,
    batches_of,
    build,
    cut,
    flip_bit,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return build(tmp_path_factory.mktemp("written") / "orders-0", clean=True)


@pytest.fixture
def copied(written, tmp_path):
    """The ``.log`` files alone, as somebody saves them from somewhere."""
    path = tmp_path / "orders-0"
    path.mkdir()
    for file in written.path.glob("*.log"):
        (path / file.name).write_bytes(file.read_bytes())
    return LogDirectory(path)


def payload(file, batch):
    flip_bit(file, batch.position + 70)


def length(file, batch):
    """It claims to reach beyond the end of the file, as half a write does."""
    flip_bit(file, batch.position + 8, bit=4)


def base_offset(file, batch):
    """No CRC covers it: the batch is whole, and says that it is the one before."""
    data = bytearray(file.read_bytes())
    data[batch.position : batch.position + 8] = (batch.base_offset - 1).to_bytes(8)
    file.write_bytes(data)


def header(file, batch):
    data = bytearray(file.read_bytes())
    data[batch.position : batch.position + 61] = bytes(61)
    file.write_bytes(data)


def page_of_zeros(file, batch):
    data = bytearray(file.read_bytes())
    data[batch.position : batch.end] = bytes(batch.size)
    file.write_bytes(data)


def run(capsys, *arguments):
    code = cli.main([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


def check_all(copied, capsys, end):
    """Every door says that records behind *end* are not shown."""
    path = str(copied.path)
    with copied.open(read_only=True) as log:
        assert log.log_end_offset == end
        damage = log.report.damage
        assert damage in log.report.warnings
        assert f"warning: {damage}" in str(log.report)
        told = "".join(
            f"segstore: {path}: {text}\n" for text in [*log.report.warnings[:-1], damage]
        )

    code, out, err = run(capsys, "cat", "-q", "-f", "%o\n", path)
    assert out.split() == [str(offset) for offset in range(end)]
    assert code == 1
    assert err.startswith(f"segstore: {path}: {damage}")
    code, out, err = run(capsys, "tail", "-n", "1", path)
    assert (code, err) == (1, told)
    code, out, err = run(capsys, "ls", path)
    assert (code, err) == (1, told)
    assert out.splitlines()[1].split()[3] == f"{end}!"
    code, out, err = run(capsys, "ls", "--json", path)
    assert (code, json.loads(out)["damage"]) == (1, damage)


@pytest.mark.parametrize("harm", [payload, length, base_offset, header, page_of_zeros])
@pytest.mark.parametrize("number", [0, -1])
def test_records_behind_damage(copied, capsys, harm, number):
    """[DUR-51, DUR-58] In the first segment and in the last one, where only bytes follow."""
    file = copied.file(copied.bases[number])
    batch = batches_of(file)[1]
    harm(file, batch)

    check_all(copied, capsys, batch.base_offset)


def test_a_segment_that_is_missing(written, capsys, tmp_path):
    """[DUR-54] Where the log says of itself that it has no gap."""
    copied = written.copy(tmp_path / "orders-0")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (copied.path / name).unlink()
    gone = copied.bases[2]
    copied.file(gone).unlink()

    check_all(copied, capsys, gone)


def test_records_that_had_been_synced(copied, capsys):
    """[DUR-51] The recovery point came along, the end of the last file did not."""
    last = batches_of(copied.last)[-1]
    cut(copied.last, last.position)
    copied.set_recovery_point(RECORDS_COUNT)

    check_all(copied, capsys, last.base_offset)


@pytest.mark.parametrize("tail", [b"half a batch", bytes(5000), b"\1" * 5000], ids=len)
def test_a_write_that_was_not_finished_is_no_damage(copied, capsys, tail):
    """[DUR-76] It ends the log for now; nothing that was told to anybody is in it."""
    append_bytes(copied.last, tail)
    path = str(copied.path)

    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, RECORDS_COUNT)
    assert run(capsys, "cat", "-q", "-f", "", path) == (0, "", "")
    code, out, err = run(capsys, "ls", path)
    assert (code, err) == (0, "")
    assert "!" not in out


def test_half_of_the_last_batch_is_no_damage(copied):
    """[DUR-76] The end of a torn write may hold what looks like records."""
    cut(copied.last, batches_of(copied.last)[-1].end - 1)

    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, RECORDS_COUNT - 1)


def test_who_asked_for_less_is_not_told(copied, capsys):
    """Records before the damage were asked for, and shown."""
    batch = batches_of(copied.last)[1]
    payload(copied.last, batch)
    time = 1_700_000_000_000 + 5

    assert run(capsys, "cat", "-q", "-c", "3", "-f", "%o ", str(copied.path)) == (0, "0 1 2 ", "")
    code, out, err = run(capsys, "cat", "-q", "-o", f"e@{time}", "-f", "%o ", str(copied.path))
    assert (code, out, err) == (0, "0 1 2 3 4 ", "")


def test_a_batch_that_was_completed_meanwhile(copied, monkeypatch):
    """[DUR-76] In a preallocated file: what was torn is whole when it is looked at again."""
    from segstore.log.recovery import view

    data = copied.last.read_bytes()
    torn = batches_of(copied.last)[-2]
    copied.last.write_bytes(data[: torn.position + 30] + bytes(len(data) - torn.position - 30))
    search = view.is_followed_by_batch

    def write_the_rest(*arguments):
        copied.last.write_bytes(data)
        return search(*arguments)

    monkeypatch.setattr(view, "is_followed_by_batch", write_the_rest)
    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, torn.base_offset)
        assert log.refresh() == RECORDS_COUNT
