"""A transaction version that does not exist was taken for one."""

from __future__ import annotations

import pytest

import segstore
from segstore import AppendOrigin, IllegalArgumentError, MemoryRecords


@pytest.mark.parametrize("version", [-2, 3, 2**31])
def test_a_version_that_does_not_exist(tmp_path, version):
    """[PSM-18] It is -1, unknown, or 0, 1 or 2."""
    marker = MemoryRecords.with_end_transaction_marker(1, 0, commit=True)
    with segstore.open(tmp_path / "a-0") as log:
        with pytest.raises(IllegalArgumentError, match="transaction_version"):
            log.append_as_leader(
                marker, origin=AppendOrigin.COORDINATOR, transaction_version=version
            )
        assert log.log_end_offset == 0
