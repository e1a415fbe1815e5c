"""Which options there are, and what was meant by a name that is none."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.directory_option import REMOTE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READ_OPTIONS: Final = (
    "path",
    "asPartition",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "partitionsPerTask",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "onDamage",
    "includeHeaders",
    "isolation.level",
    "connectorCompatible",
    "kind",
    "layout",
    "keys",
    "keyPrefix",
    "allowGaps",
    "belowLogStart",
    "spoolDirectory",
    "spoolMaxBytes",
)
CONSUMER_OPTIONS: Final = (
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)
"""The connector's, of its consumer: they mean nothing here."""
PREFIXES: Final = ("kafka.", REMOTE_PREFIX)
_NEARLY: Final = 0.85
_ALIKE: Final = 0.6
"""How much of two names is equal, as `difflib` counts, where a warning or a hint is due."""


def misspelt_options(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return a warning for each name that is none, but nearly one of *known*; in any case."""
    return [
        f"option {name} is not known: {meant} is"
        for name, meant in _unknown(given, known, _NEARLY)
        if meant is not None
    ]


def refuse_unknown_options(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for a name that a function does not know: it would do more than it was asked to.

    Raises
    ------
    ConnectorOptionError
        Naming what is alike.
    """
    for name, meant in _unknown(given, known, _ALIKE):
        hint = "" if meant is None else f": was {meant} meant?"
        raise ConnectorOptionError(
            f"there is no option {name!r}{hint}",
            found=name,
            expected=", ".join(name for name in known if name not in {"path", "kind"}),
        )


def _unknown(
    given: Iterable[str], known: Iterable[str], cutoff: float
) -> Iterator[tuple[str, str | None]]:
    """Yield each name that is no option, in any case, with the option that is most like it."""
    by_name = {name.lower(): name for name in (*known, *CONSUMER_OPTIONS)}
    for name in given:
        if name.lower() not in by_name and not name.lower().startswith(PREFIXES):
            alike = get_close_matches(name.lower(), by_name, n=1, cutoff=cutoff)
            yield name, by_name[alike[0]] if alike else None
