"""Records of ``__consumer_offsets``, in the group coordinator's formats.

The form is that of `message_schema`; the facts are Kafka 4.3.1's message definitions.
"""

from __future__ import annotations

from typing import Final

GROUP_MESSAGES: Final = """
LegacyOffsetCommitKey key=0 versions=0
  group string
  topic string
  partition int32
LegacyOffsetCommitValue key=0 versions=0
  offset int64
  metadata string
  commitTimestamp int64
OffsetCommitKey key=1 versions=0
  group string
  topic string
  partition int32
OffsetCommitValue key=1 versions=0-4 flexible=4+
  offset int64
  leaderEpoch int32 3+
  metadata string
  commitTimestamp int64
  expireTimestamp int64 1
  topicId uuid 4+ #0
GroupMetadataKey key=2 versions=0
  group string
GroupMetadataValue key=2 versions=0-4 flexible=4+
  protocolType string
  generation int32
  protocol string?
  leader string?
  currentStateTimestamp int64 2+
  members []MemberMetadata
  struct MemberMetadata
    memberId string
    groupInstanceId string? 3+
    clientId string
    clientHost string
    rebalanceTimeout int32 1+
    sessionTimeout int32
    subscription bytes
    assignment bytes
ConsumerGroupMetadataKey key=3 versions=0
  groupId string
ConsumerGroupMetadataValue key=3 versions=0 flexible=0+
  epoch int32
  metadataHash int64 #0
ConsumerGroupPartitionMetadataKey key=4 versions=0
  groupId string
ConsumerGroupPartitionMetadataValue key=4 versions=0 flexible=0+
  topics []TopicMetadata
    topicId uuid
    topicName string
    numPartitions int32
    partitionMetadata []PartitionMetadata
      partition int32
      racks []string
ConsumerGroupMemberMetadataKey key=5 versions=0
  groupId string
  memberId string
ConsumerGroupMemberMetadataValue key=5 versions=0 flexible=0+
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames []string
  subscribedTopicRegex string?
  rebalanceTimeoutMs int32
  serverAssignor string?
  classicMemberMetadata ClassicMemberMetadata? #0
    sessionTimeoutMs int32
    supportedProtocols []ClassicProtocol
      name string
      metadata bytes
ConsumerGroupTargetAssignmentMetadataKey key=6 versions=0
  groupId string
ConsumerGroupTargetAssignmentMetadataValue key=6 versions=0 flexible=0+
  assignmentEpoch int32
  assignmentTimestamp int64 #0
ConsumerGroupTargetAssignmentMemberKey key=7 versions=0
  groupId string
  memberId string
ConsumerGroupTargetAssignmentMemberValue key=7 versions=0 flexible=0+
  topicPartitions []TopicPartition
    topicId uuid
    partitions []int32
ConsumerGroupCurrentMemberAssignmentKey key=8 versions=0
  groupId string
  memberId string
ConsumerGroupCurrentMemberAssignmentValue key=8 versions=0 flexible=0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions []TopicPartitions
  partitionsPendingRevocation []TopicPartitions
  struct TopicPartitions
    topicId uuid
    partitions []int32
    assignmentEpochs []int32? #0
ShareGroupMemberMetadataKey key=10 versions=0
  groupId string
  memberId string
ShareGroupMemberMetadataValue key=10 versions=0 flexible=0+
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames []string
ShareGroupMetadataKey key=11 versions=0
  groupId string
ShareGroupMetadataValue key=11 versions=0 flexible=0+
  epoch int32
  metadataHash int64
ShareGroupTargetAssignmentMetadataKey key=12 versions=0
  groupId string
ShareGroupTargetAssignmentMetadataValue key=12 versions=0 flexible=0+
  assignmentEpoch int32
  assignmentTimestamp int64 #0
ShareGroupTargetAssignmentMemberKey key=13 versions=0
  groupId string
  memberId string
ShareGroupTargetAssignmentMemberValue key=13 versions=0 flexible=0+
  topicPartitions []TopicPartition
    topicId uuid
    partitions []int32
ShareGroupCurrentMemberAssignmentKey key=14 versions=0
  groupId string
  memberId string
ShareGroupCurrentMemberAssignmentValue key=14 versions=0 flexible=0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions []TopicPartitions
  struct TopicPartitions
    topicId uuid
    partitions []int32
ShareGroupStatePartitionMetadataKey key=15 versions=0
  groupId string
ShareGroupStatePartitionMetadataValue key=15 versions=0 flexible=0+
  initializingTopics []TopicPartitionsInfo
  initializedTopics []TopicPartitionsInfo
  deletingTopics []TopicInfo
  struct TopicPartitionsInfo
    topicId uuid
    topicName string
    partitions []int32
  struct TopicInfo
    topicId uuid
    topicName string
ConsumerGroupRegularExpressionKey key=16 versions=0
  groupId string
  regularExpression string
ConsumerGroupRegularExpressionValue key=16 versions=0 flexible=0+
  topics []string
  version int64
  timestamp int64
StreamsGroupMetadataKey key=17 versions=0
  groupId string
StreamsGroupMetadataValue key=17 versions=0 flexible=0+
  epoch int32
  metadataHash int64
  validatedTopologyEpoch int32 #0=-1
  lastAssignmentConfigs []LastAssignmentConfig? #1
  struct LastAssignmentConfig
    key string
    value string
StreamsGroupMemberMetadataKey key=19 versions=0
  groupId string
  memberId string
StreamsGroupMemberMetadataValue key=19 versions=0 flexible=0+
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  rebalanceTimeoutMs int32
  topologyEpoch int32
  processId string
  userEndpoint Endpoint?
  clientTags []KeyValue
  struct Endpoint
    host string
    port uint16
  struct KeyValue
    key string
    value string
StreamsGroupTargetAssignmentMetadataKey key=20 versions=0
  groupId string
StreamsGroupTargetAssignmentMetadataValue key=20 versions=0 flexible=0+
  assignmentEpoch int32
  assignmentTimestamp int64 #0
StreamsGroupTargetAssignmentMemberKey key=21 versions=0
  groupId string
  memberId string
StreamsGroupTargetAssignmentMemberValue key=21 versions=0 flexible=0+
  activeTasks []TaskIds
  standbyTasks []TaskIds
  warmupTasks []TaskIds
  struct TaskIds
    subtopologyId string
    partitions []int32
StreamsGroupCurrentMemberAssignmentKey key=22 versions=0
  groupId string
  memberId string
StreamsGroupCurrentMemberAssignmentValue key=22 versions=0 flexible=0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  activeTasks []TaskIds
  standbyTasks []TaskIds
  warmupTasks []TaskIds
  activeTasksPendingRevocation []TaskIds
  standbyTasksPendingRevocation []TaskIds
  warmupTasksPendingRevocation []TaskIds
  struct TaskIds
    subtopologyId string
    partitions []int32
    assignmentEpochs []int32? #0
StreamsGroupTopologyKey key=23 versions=0
  groupId string
StreamsGroupTopologyValue key=23 versions=0 flexible=0+
  epoch int32
  subtopologies []Subtopology
    subtopologyId string
    sourceTopics []string
    sourceTopicRegex []string
    stateChangelogTopics []TopicInfo
    repartitionSinkTopics []string
    repartitionSourceTopics []TopicInfo
    copartitionGroups []CopartitionGroup
      sourceTopics []int16
      sourceTopicRegex []int16
      repartitionSourceTopics []int16
  struct TopicConfig
    key string
    value string
  struct TopicInfo
    name string
    partitions int32
    replicationFactor int16
    topicConfigs []TopicConfig
"""
