"""Numbers of log directories under Kafka's metric names, and as Prometheus reads them.

Nothing is opened for them: a log that is not open has no numbers. Source: [MGR-12, MGR-24],
[TIER-43]; Kafka ``LogManager``, ``UnifiedLog.newMetrics``, ``ReplicaManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.maintenance_report import DeletionCounts
    from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
    from segstore.types import TopicPartition

OFFLINE_DIRECTORIES: Final = "kafka.log:type=LogManager,name=OfflineLogDirectoryCount"
DIRECTORY_OFFLINE: Final = "kafka.log:type=LogManager,name=LogDirectoryOffline"
REMAINING_LOGS: Final = "kafka.log:type=LogManager,name=remainingLogsToRecover"
PARTITIONS: Final = "kafka.server:type=ReplicaManager,name=PartitionCount"
OPEN_LOGS: Final = "segstore.manager:type=LogManager,name=OpenLogs"
DELETED_SEGMENTS: Final = "segstore.manager:type=Retention,name=DeletedSegments"
DELETED_BYTES: Final = "segstore.manager:type=Retention,name=DeletedBytes"
FAILING_TASKS: Final = "segstore.manager:type=Maintenance,name=FailingTasks"
CLEANER: Final = "kafka.log:type=LogCleaner,name="
CLEANER_MANAGER: Final = "kafka.log:type=LogCleanerManager,name="
SIZE: Final = "kafka.log:type=Log,name=Size"
SEGMENTS: Final = "kafka.log:type=Log,name=NumLogSegments"
LOG_START_OFFSET: Final = "kafka.log:type=Log,name=LogStartOffset"
LOG_END_OFFSET: Final = "kafka.log:type=Log,name=LogEndOffset"
REMOTE: Final = "kafka.server:type=BrokerTopicMetrics,name="

_OF_LOGS: Final = {
    SIZE: "size",
    SEGMENTS: "num_log_segments",
    LOG_START_OFFSET: "log_start_offset",
    LOG_END_OFFSET: "log_end_offset",
}
"""What `Log.stats` calls it."""
_OF_REMOTE_LOGS: Final = {
    f"{REMOTE}RemoteCopyLagBytes": "copy_lag_bytes",
    f"{REMOTE}RemoteCopyLagSegments": "copy_lag_segments",
    f"{REMOTE}RemoteDeleteLagBytes": "delete_lag_bytes",
    f"{REMOTE}RemoteDeleteLagSegments": "delete_lag_segments",
    f"{REMOTE}RemoteLogMetadataCount": "metadata_count",
    f"{REMOTE}RemoteLogSizeBytes": "remote_log_size_bytes",
}
"""What `RemoteLogFigures` calls it."""
_COUNTERS: Final = frozenset({DELETED_SEGMENTS, DELETED_BYTES})
_HELP: Final = {
    OFFLINE_DIRECTORIES: "Log directories in which an I/O error has ended writing.",
    DIRECTORY_OFFLINE: "1 where an I/O error has ended writing, else 0.",
    REMAINING_LOGS: "Logs not opened since an unclean stop: the first use recovers each.",
    PARTITIONS: "Partitions in the directories, open or not.",
    OPEN_LOGS: "Partitions whose logs are open; only these have numbers of their own.",
    DELETED_SEGMENTS: "Segments that retention has deleted since the open, by limit.",
    DELETED_BYTES: "Bytes of these segments.",
    FAILING_TASKS: "Tasks that failed when they ran last, and are tried again.",
    f"{CLEANER}max-buffer-utilization-percent": "Memory for keys that the last passes used.",
    f"{CLEANER}cleaner-recopy-percent": "Bytes that the last passes kept, of those they read.",
    f"{CLEANER}max-clean-time-secs": "Seconds of the longest of the last passes.",
    f"{CLEANER}max-compaction-delay-secs": "Seconds over max.compaction.lag.ms, at a choice.",
    f"{CLEANER}DeadThreadCount": "Cleaner threads whose last run has failed; they run again.",
    f"{CLEANER_MANAGER}max-dirty-percent": "The largest dirty part of a log, at the last choice.",
    f"{CLEANER_MANAGER}time-since-last-run-ms": "Since the last choice.",
    f"{CLEANER_MANAGER}uncleanable-partitions-count": "Logs that could not be cleaned.",
    f"{CLEANER_MANAGER}uncleanable-bytes": "Bytes of these that are due to be cleaned.",
    SIZE: "Bytes in the .log files.",
    SEGMENTS: "Segments.",
    LOG_START_OFFSET: "First offset that can be read.",
    LOG_END_OFFSET: "Offset that the next record gets.",
    f"{REMOTE}RemoteCopyLagBytes": "Bytes of sealed segments that are not in remote storage.",
    f"{REMOTE}RemoteCopyLagSegments": "Sealed segments that are not in remote storage.",
    f"{REMOTE}RemoteDeleteLagBytes": "Bytes in remote storage that are to be deleted.",
    f"{REMOTE}RemoteDeleteLagSegments": "Segments in remote storage that are to be deleted.",
    f"{REMOTE}RemoteLogMetadataCount": "Segments in remote storage, in any state.",
    f"{REMOTE}RemoteLogSizeBytes": "Bytes in remote storage.",
}


class Metric(NamedTuple):
    """One number.

    Attributes
    ----------
    name : str
        Kafka's name of the metric; one that Kafka does not have begins with ``segstore``.
    tags : tuple of tuple of str
        Pairs of name and value, such as ``("topic", "orders")``.
    value : int
        The number.
    """

    name: str
    tags: tuple[tuple[str, str], ...]
    value: int

    @property
    def prometheus_name(self) -> str:
        """The name as the JMX exporter gives it with Kafka's sample configuration."""
        domain, _, keys = self.name.partition(":")
        words = [domain.replace(".", "_"), *(pair.partition("=")[2] for pair in keys.split(","))]
        total = ["total"] if self.name in _COUNTERS else []
        return "_".join([*words, *total]).lower().replace("-", "_")


class ManagerStats(NamedTuple):
    """The numbers of log directories at one moment.

    Attributes
    ----------
    metrics : tuple of Metric
        All of them; those of one name follow each other.
    """

    metrics: tuple[Metric, ...]

    def value(self, name: str, **tags: str) -> int:
        """Return a number by its Kafka name and its tags.

        Raises
        ------
        KeyError
            There is none.
        """
        for one in self.metrics:
            if one.name == name and dict(one.tags) == tags:
                return one.value
        raise KeyError(name, tags)

    def prometheus_text(self) -> str:
        """Return them in the text format of Prometheus, to be served as ``/metrics``."""
        lines: list[str] = []
        before = None
        for one in self.metrics:
            name = one.prometheus_name
            if one.name != before:
                kind = "counter" if one.name in _COUNTERS else "gauge"
                lines += [f"# HELP {name} {_HELP[one.name]}", f"# TYPE {name} {kind}"]
                before = one.name
            labels = ",".join(f'{key}="{_escaped(text)}"' for key, text in one.tags)
            lines.append(f"{name}{{{labels}}} {one.value}" if labels else f"{name} {one.value}")
        return "\n".join(lines) + "\n"


def manager_stats(  # noqa: PLR0913 - each by its name
    directories: Mapping[str, bool],
    *,
    remaining_logs: Mapping[str, int],
    partitions: int,
    logs: Iterable[UnifiedLog],
    deletions: DeletionCounts,
    failing_tasks: int,
    cleaning: Mapping[str, Mapping[str, int]],
    remote: Mapping[TopicPartition, RemoteLogFigures],
) -> ManagerStats:
    """Put the numbers together.

    Parameters
    ----------
    directories : mapping of str to bool
        The log directories, and whether an I/O error has ended writing in each.
    remaining_logs : mapping of str to int
        By log directory, how many logs were not opened since an unclean stop.
    partitions : int
        How many there are.
    logs : iterable of UnifiedLog
        Those that are open; one that is closed meanwhile is left out.
    deletions : DeletionCounts
        What retention has deleted.
    failing_tasks : int
        How many fail.
    cleaning : mapping of str to mapping of str to int
        By log directory, the numbers of its cleaner by their names.
    remote : mapping of TopicPartition to RemoteLogFigures
        Of tiered logs, as of the last pass.
    """
    of_logs = sorted(_numbers_of(logs))
    limits = sorted(deletions.segments)
    return ManagerStats(
        (
            Metric(OFFLINE_DIRECTORIES, (), sum(directories.values())),
            *(
                Metric(DIRECTORY_OFFLINE, (("logDirectory", path),), int(is_offline))
                for path, is_offline in directories.items()
            ),
            *(
                Metric(REMAINING_LOGS, (("dir", path),), count)
                for path, count in remaining_logs.items()
            ),
            Metric(PARTITIONS, (), partitions),
            Metric(OPEN_LOGS, (), len(of_logs)),
            *(
                Metric(DELETED_SEGMENTS, (("limit", one),), deletions.segments[one])
                for one in limits
            ),
            *(Metric(DELETED_BYTES, (("limit", one),), deletions.bytes[one]) for one in limits),
            Metric(FAILING_TASKS, (), failing_tasks),
            *(
                Metric(name, (("logDirectory", path),), numbers[name])
                for name in next(iter(cleaning.values()), {})
                for path, numbers in cleaning.items()
            ),
            *(
                Metric(name, (("topic", topic), ("partition", str(number))), numbers[place])
                for place, name in enumerate(_OF_LOGS)
                for topic, number, numbers in of_logs
            ),
            *(
                Metric(name, (("topic", one.topic), ("partition", str(one.partition))), number)
                for name, field in _OF_REMOTE_LOGS.items()
                for one, figures in sorted(remote.items())
                for number in [getattr(figures, field)]
            ),
        )
    )


def _numbers_of(logs: Iterable[UnifiedLog]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for log in logs:
        try:
            found = log.stats()
        except ClosedError:
            continue
        yield (
            *log.topic_partition,
            tuple(int(found[name]) for name in _OF_LOGS.values()),
        )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
