"""The sign bit of a batch's leader epoch flipped, which no CRC covers: the epochs were forgotten.

It counted as a message of an old format, which ends them. The checkpoint was written anew without
them, older epochs were accepted behind that, and nothing was told.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from segstore import MemoryRecords
from segstore._core import DataFile, Directory
from segstore.errors import InvalidEpochError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH, START_MS, batches_in

EPOCH_SIGN = 12


@pytest.mark.parametrize("number", [4, 7, 9])
def test_the_epochs_stay(number):
    """[APP-10, SEG-40, DUR-64] Of ten batches of the epochs 0, 3 and 5."""
    disk = new_disk()
    log = open_log(disk)
    records = MemoryRecords.with_records([(START_MS, None, b"v")])
    for epoch in (0, 0, 0, 3, 3, 5, 5, 5, 5, 5):
        log.append_as_leader(records, epoch)
    log.close_quietly()
    directory, name = Directory(PATH, disk), f"{0:020d}.log"
    checkpoint = directory.read_file(LEADER_EPOCH_CHECKPOINT)
    batches = [batch for _, batch in batches_in(directory.read_file(name))]
    position = sum(map(len, batches[:number])) + EPOCH_SIGN
    with DataFile(directory, name) as file:
        file.write(position, b"\x80")

    with closing(open_log(disk, read_only=True)) as reader:
        assert reader.latest_epoch == 5
    with closing(open_log(disk)) as log:
        assert (log.latest_epoch, log.end_offset_for_epoch(3)) == (5, (3, 5))
        with pytest.raises(InvalidEpochError):
            log.append_as_leader(records, 2)
    assert directory.read_file(LEADER_EPOCH_CHECKPOINT) == checkpoint
