"""What a read is told when it goes to the end of a log that is known to lack records.

An open for reading goes as far as it can and says what is missing; a query would take that for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import CorruptLogError
from segstore.log.files.partition_directory import directory_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.spark.options import ConnectorOptions
    from segstore.spark.visible_log import LogBounds
    from segstore.types import TopicPartition


def check_damaged_end(
    options: ConnectorOptions,
    topic_partition: TopicPartition,
    until_offset: int,
    log: LogBounds,
    warn: Callable[[str], None] | None = None,
) -> None:
    """Raise when a read up to *until_offset* comes to the end of a log that is damaged there.

    With ``failOnDataLoss=false`` or ``onDamage=skip`` *warn* is told, and what is there is read; a
    task says nothing: who planned it has.
    """
    if log.damage is None or until_offset < log.end_offset:
        return
    path = options.shown_path
    error = CorruptLogError(
        log.damage,
        file=path if options.files else f"{path}/{directory_name(topic_partition)}",
        found=f"an end at offset {log.end_offset}",
        expected="all that was synced; failOnDataLoss=false reads what is left",
    )
    if options.fail_on_data_loss and not options.skips_damage:
        raise error
    if warn is not None:
        warn(str(error))
