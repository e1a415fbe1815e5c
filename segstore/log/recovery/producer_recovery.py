"""The producers of a log that was opened with the safe profile, up to its end [LDR-9, DUR-52]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import CorruptRecordError, InvalidTxnStateError
from segstore.log.files.recovery_advice import corrupt_log, recovery_advice
from segstore.log.producers.producer_state_rebuild import (
    rebuild_producer_state,
    rebuild_transaction_indexes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import CodecTable, Directory
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.recovery.loaded_log import LoadedLog
    from segstore.log.recovery.recovery_report import RecoveryReport


def recover_producers(
    loaded: LoadedLog,
    new_producers: Callable[[], ProducerStateManager],
    codecs: CodecTable,
    directory: Directory,
    report: RecoveryReport,
) -> ProducerStateManager:
    """Bring the producer state to the log end, and make the transaction indexes anew on the way.

    Those of the segments that were recovered [LDR-16, DUR-52]. To Kafka a log without a snapshot
    that was closed cleanly has no producers [PSM-71]. Here snapshots may be lost [DUR-8]: what they
    would have told is read from the batches, else an open transaction would count as none, and its
    records as committed. Only an empty log has no batch that could tell.

    Raises
    ------
    CorruptLogError
        A batch that would have to be read is damaged, or follows from none before it; snapshots
        that tell the same are lost.
    """
    now_ms = directory.wall_clock_ms()
    recovered = [
        one for base in sorted(loaded.recovered) if (one := loaded.segments.get(base)) is not None
    ]
    before, producers = new_producers(), new_producers()
    try:
        if recovered:  # what lies below the log start is in its state too: it is not the log's
            rebuild_transaction_indexes(
                before,
                loaded.segments,
                recovered,
                codecs,
                directory,
                log_start_offset=loaded.log_start_offset,
                now_ms=now_ms,
                with_producers=loaded.with_producers,
            )
        is_empty = loaded.log_start_offset == loaded.log_end.message_offset
        producers.snapshots.remove_strays(loaded.segments.base_offsets, loaded.snapshot_offsets)
        rebuild_producer_state(
            producers,
            loaded.segments,
            codecs,
            log_start_offset=loaded.log_start_offset,
            last_offset=loaded.log_end.message_offset,
            now_ms=now_ms,
            from_clean_shutdown=report.clean and is_empty,
        )
    except (CorruptRecordError, InvalidTxnStateError) as error:  # or its transactions have holes
        what = (
            "recovery must read it, for no producer snapshot covers it."
            f" {recovery_advice(directory.path)}"
        )
        raise corrupt_log(error, what) from error
    if not report.clean:
        producers.snapshots.distrust_latest()
    report.warnings += [
        f"{error}: the snapshot was deleted, and the producers were read from the batches"
        for error in (*before.snapshots.refused, *producers.snapshots.refused)
    ]
    return producers
