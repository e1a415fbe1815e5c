"""Records of ``__remote_log_metadata``, in the format of Kafka's topic-based manager.

The form is that of `message_schema`; the facts are Kafka 4.3.1's message definitions.
"""

from __future__ import annotations

from typing import Final

REMOTE_LOG_MESSAGES: Final = """
RemoteLogSegmentMetadataRecord key=0 versions=0 flexible=0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes?
  remoteLogSegmentState int8
  txnIndexEmpty bool #0
RemoteLogSegmentMetadataUpdateRecord key=1 versions=0 flexible=0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  brokerId int32
  eventTimestampMs int64
  customMetadata bytes?
  remoteLogSegmentState int8
RemotePartitionDeleteMetadataRecord key=2 versions=0 flexible=0+
  topicIdPartition TopicIdPartitionEntry
    name string
    id uuid
    partition int32
  brokerId int32
  eventTimestampMs int64
  remotePartitionDeleteState int8
RemoteLogSegmentMetadataSnapshotRecord key=3 versions=0 flexible=0+
  segmentId uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes?
  remoteLogSegmentState int8
  txnIndexEmpty bool #0
"""
