"""Records of ``__transaction_state`` and ``__share_group_state``, and the consumers' own protocol.

The form is that of `message_schema`; the facts are Kafka 4.3.1's message definitions.
"""

from __future__ import annotations

from typing import Final

TRANSACTION_MESSAGES: Final = """
TransactionLogKey key=0 versions=0
  transactionalId string
TransactionLogValue key=0 versions=0-1 flexible=1+
  producerId int64
  previousProducerId int64 1+ #0=-1
  nextProducerId int64 1+ #1=-1
  producerEpoch int16
  nextProducerEpoch int16 1+ #3=-1
  transactionTimeoutMs int32
  transactionStatus int8
  transactionPartitions []PartitionsSchema?
    topic string
    partitionIds []int32
  transactionLastUpdateTimestampMs int64
  transactionStartTimestampMs int64
  clientTransactionVersion int16 1+ #2
"""

SHARE_MESSAGES: Final = """
ShareSnapshotKey key=0 versions=0
  groupId string
  topicId uuid
  partition int32
ShareSnapshotValue key=0 versions=0 flexible=0+
  snapshotEpoch int32
  stateEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 #0=-1
  createTimestamp int64
  writeTimestamp int64
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
ShareUpdateKey key=1 versions=0
  groupId string
  topicId uuid
  partition int32
ShareUpdateValue key=1 versions=0 flexible=0+
  snapshotEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 #0=-1
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
"""

PROTOCOL_MESSAGES: Final = """
ConsumerProtocolAssignment versions=0-3
  assignedPartitions []TopicPartition
    topic string
    partitions []int32
  userData bytes?
ConsumerProtocolSubscription versions=0-3
  topics []string
  userData bytes?
  ownedPartitions []TopicPartition 1+
    topic string 1+
    partitions []int32 1+
  generationId int32 2+
  rackId string? 3+
"""
"""Subscriptions and assignments inside the group metadata of classic consumers."""
