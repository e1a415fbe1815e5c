"""Records of ``__cluster_metadata`` and of KRaft's control batches.

The form is that of `message_schema`; the facts are Kafka 4.3.1's message definitions.
"""

from __future__ import annotations

from typing import Final

METADATA_MESSAGES: Final = """
RegisterBrokerRecord key=0 versions=0-4 flexible=0+
  brokerId int32
  isMigratingZkBroker bool 2+
  incarnationId uuid
  brokerEpoch int64
  endPoints []BrokerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []BrokerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
  rack string?
  fenced bool
  inControlledShutdown bool 1+
  logDirs []uuid 3+ #0
  cordonedLogDirs []uuid? 4+ #1=null
UnregisterBrokerRecord key=1 versions=0 flexible=0+
  brokerId int32
  brokerEpoch int64
TopicRecord key=2 versions=0 flexible=0+
  name string
  topicId uuid
PartitionRecord key=3 versions=0-2 flexible=0+
  partitionId int32
  topicId uuid
  replicas []int32
  isr []int32
  removingReplicas []int32
  addingReplicas []int32
  leader int32
  leaderRecoveryState int8 #0
  leaderEpoch int32
  partitionEpoch int32
  directories []uuid 1+
  eligibleLeaderReplicas []int32? 2+ #1=null
  lastKnownElr []int32? 2+ #2=null
ConfigRecord key=4 versions=0 flexible=0+
  resourceType int8
  resourceName string
  name string
  value string?
PartitionChangeRecord key=5 versions=0-2 flexible=0+
  partitionId int32
  topicId uuid
  isr []int32? #0=null
  leader int32 #1=-2
  replicas []int32? #2=null
  removingReplicas []int32? #3=null
  addingReplicas []int32? #4=null
  leaderRecoveryState int8 #5=-1
  directories []uuid? 1+ #8=null
  eligibleLeaderReplicas []int32? 2+ #6=null
  lastKnownElr []int32? 2+ #7=null
FenceBrokerRecord key=7 versions=0 flexible=0+
  id int32
  epoch int64
UnfenceBrokerRecord key=8 versions=0 flexible=0+
  id int32
  epoch int64
RemoveTopicRecord key=9 versions=0 flexible=0+
  topicId uuid
DelegationTokenRecord key=10 versions=0 flexible=0+
  owner string
  requester string
  renewers []string
  issueTimestamp int64
  maxTimestamp int64
  expirationTimestamp int64
  tokenId string
UserScramCredentialRecord key=11 versions=0 flexible=0+
  name string
  mechanism int8
  salt bytes
  storedKey bytes
  serverKey bytes
  iterations int32
FeatureLevelRecord key=12 versions=0 flexible=0+
  name string
  featureLevel int16
ClientQuotaRecord key=14 versions=0 flexible=0+
  entity []EntityData
    entityType string
    entityName string?
  key string
  value float64
  remove bool
ProducerIdsRecord key=15 versions=0 flexible=0+
  brokerId int32
  brokerEpoch int64
  nextProducerId int64
BrokerRegistrationChangeRecord key=17 versions=0-3 flexible=0+
  brokerId int32
  brokerEpoch int64
  fenced int8 #0
  inControlledShutdown int8 1+ #1
  logDirs []uuid 2+ #2
  cordonedLogDirs []uuid? 3+ #3=null
AccessControlEntryRecord key=18 versions=0 flexible=0+
  id uuid
  resourceType int8
  resourceName string
  patternType int8
  principal string
  host string
  operation int8
  permissionType int8
RemoveAccessControlEntryRecord key=19 versions=0 flexible=0+
  id uuid
NoOpRecord key=20 versions=0 flexible=0+
ZkMigrationStateRecord key=21 versions=0 flexible=0+
  zkMigrationState int8
RemoveUserScramCredentialRecord key=22 versions=0 flexible=0+
  name string
  mechanism int8
BeginTransactionRecord key=23 versions=0 flexible=0+
  name string? #0=null
EndTransactionRecord key=24 versions=0 flexible=0+
AbortTransactionRecord key=25 versions=0 flexible=0+
  reason string? #0=null
RemoveDelegationTokenRecord key=26 versions=0 flexible=0+
  tokenId string
RegisterControllerRecord key=27 versions=0 flexible=0+
  controllerId int32
  incarnationId uuid
  zkMigrationReady bool
  endPoints []ControllerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []ControllerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
ClearElrRecord key=28 versions=0 flexible=0+
  topicName string
"""

CONTROL_MESSAGES: Final = """
KRaftVersionRecord versions=0 flexible=0+
  version int16
  kRaftVersion int16
LeaderChangeMessage versions=0-1 flexible=0+
  version int16
  leaderId int32
  voters []Voter
  grantingVoters []Voter
  struct Voter
    voterId int32
    voterDirectoryId uuid 1+
SnapshotFooterRecord versions=0 flexible=0+
  version int16
SnapshotHeaderRecord versions=0 flexible=0+
  version int16
  lastContainedLogTimestamp int64
VotersRecord versions=0 flexible=0+
  version int16
  voters []Voter
    voterId int32
    voterDirectoryId uuid
    endpoints []Endpoint
      name string
      host string
      port uint16
    kRaftVersionFeature KRaftVersionFeature
      minSupportedVersion int16
      maxSupportedVersion int16
"""
"""Values of control records [format.md 6.3]; their first field repeats the version."""
