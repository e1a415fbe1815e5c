import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RaftSnapshotWriter;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.ControllerRegistration;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.Endpoints;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.ReplicaKey;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;

/**
 * Writes metadata logs and snapshots with Kafka's own classes, and tells the image that Kafka makes of a directory. A
 * request is a line of JSON, its answer another; the process lives as long as its input.
 *
 * <p>All have the directory, and the name of the snapshot to begin with, or null; show may have the offset before which
 * to end. batches: those to append to the segment
 * that begins with "segment", each with epoch, timestamp and records [type, version, JSON of the message]. snapshot: one
 * of what the directory says, with offset, epoch, timestamp, kraft_version, voters and batch_bytes. show: the image.
 * properties: what its meta.properties says.
 */
public class ImageOfMetadata {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode request = JSON.readTree(line);
                File directory = new File(request.get("directory").asText());
                switch (request.get("do").asText()) {
                    case "batches" -> answer.put("next_offset", writeBatches(directory, request));
                    case "snapshot" -> writeSnapshot(directory, request);
                    case "properties" -> answer.put("properties", new MetaProperties.Builder(
                        PropertiesUtils.readPropertiesFile(directory + "/meta.properties")).build().toString());
                    default -> answer.set("image", describe(
                        load(directory, request.get("snapshot"), request.get("at").asLong(Long.MAX_VALUE))));
                }
            } catch (Exception | AssertionError error) {
                answer.put("error", error + ", caused by " + error.getCause());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static List<ApiMessageAndVersion> records(JsonNode list) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (JsonNode one : list) {
            short version = (short) one.get(1).asInt();
            ApiMessage message = MetadataJsonConverters.readJson(one.get(2), (short) one.get(0).asInt(), version);
            records.add(new ApiMessageAndVersion(message, version));
        }
        return records;
    }

    private static long writeBatches(File directory, JsonNode request) throws Exception {
        Path file = new File(directory, String.format("%020d.log", request.get("segment").asLong())).toPath();
        long offset = request.get("next_offset").asLong();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            for (JsonNode batch : request.get("batches")) {
                List<ApiMessageAndVersion> records = records(batch.get("records"));
                long timestamp = batch.get("timestamp").asLong();
                MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), (byte) 2,
                    Compression.NONE, TimestampType.CREATE_TIME, offset, timestamp, -1, (short) -1, -1, false, false,
                    batch.get("epoch").asInt(), 1 << 20);
                for (ApiMessageAndVersion record : records) {
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
                    SERDE.write(record, cache, new ByteBufferAccessor(buffer));
                    builder.append(timestamp, null, buffer.array());
                }
                ByteBuffer built = builder.build().buffer();
                while (built.hasRemaining()) {
                    channel.write(built);
                }
                offset += records.size();
            }
        }
        return offset;
    }

    private static void writeSnapshot(File directory, JsonNode request) throws Exception {
        OffsetAndEpoch id = new OffsetAndEpoch(request.get("offset").asLong(), request.get("epoch").asInt());
        Optional<VoterSet> voters = Optional.empty();
        if (request.get("voters").size() > 0) {
            Map<Integer, VoterSet.VoterNode> nodes = new TreeMap<>();
            for (JsonNode voter : request.get("voters")) {
                int number = voter.asInt();
                nodes.put(number, VoterSet.VoterNode.of(
                    ReplicaKey.of(number, new Uuid(7, number)),
                    Endpoints.fromInetSocketAddresses(
                        Map.of(ListenerName.normalised("CONTROLLER"), new InetSocketAddress("127.0.0.1", 9000 + number))),
                    Feature.KRAFT_VERSION.supportedVersionRange()));
            }
            voters = Optional.of(VoterSet.fromMap(nodes));
        }
        try (RecordsSnapshotWriter<ApiMessageAndVersion> writer = new RecordsSnapshotWriter.Builder()
                .setLastContainedLogTimestamp(request.get("timestamp").asLong())
                .setKraftVersion(KRaftVersion.fromFeatureLevel((short) request.get("kraft_version").asInt()))
                .setVoterSet(voters)
                .setMaxBatchSizeBytes(request.get("batch_bytes").asInt())
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(directory.toPath(), id))
                .build(SERDE)) {
            MetadataImage image = load(directory, request.get("snapshot"), Long.MAX_VALUE);
            ImageWriterOptions options =
                new ImageWriterOptions.Builder(image).setEligibleLeaderReplicasEnabled(true).build();
            RaftSnapshotWriter records = new RaftSnapshotWriter(writer, 3);
            image.write(records, options);
            records.close(true);
        }
    }

    // ---- Kafka's image of a directory ---------------------------------------------------------------------------------

    /** The image of the last record below an offset; each batch is a delta of its own, as they are for a running broker. */
    private static MetadataImage load(File directory, JsonNode snapshot, long end) throws Exception {
        long start = 0;
        MetadataImage image = MetadataImage.EMPTY;
        if (!snapshot.isNull()) {
            MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
            try (FileRecords records = FileRecords.open(new File(directory, snapshot.asText()), false)) {
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    for (ApiMessageAndVersion record : decoded(batch, 0, Long.MAX_VALUE)) {
                        delta.replay(record.message());
                    }
                }
            }
            start = Long.parseLong(snapshot.asText().substring(0, 20));
            image = delta.apply(new MetadataProvenance(start - 1, 0, 0, true));
        }
        List<MetadataImage> images = new ArrayList<>();
        images.add(image);
        MetadataBatchLoader loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM,
            (message, error) -> {
                throw new IllegalStateException(message, error);
            },
            (delta, next, manifest) -> images.add(next), SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        File[] segments = directory.listFiles((folder, name) -> name.endsWith(".log"));
        Arrays.sort(segments);
        for (File segment : segments) {
            try (FileRecords records = FileRecords.open(segment, false)) {
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    List<ApiMessageAndVersion> list = decoded(batch, start, end);
                    if (list.isEmpty()) {
                        continue;
                    }
                    loader.loadBatch(Batch.data(batch.baseOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(),
                        batch.sizeInBytes(), list), LeaderAndEpoch.UNKNOWN);
                    loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                }
            }
        }
        return images.get(images.size() - 1);
    }

    private static List<ApiMessageAndVersion> decoded(RecordBatch batch, long start, long end) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        if (!batch.isControlBatch()) {
            for (Record record : batch) {
                if (record.offset() >= start && record.offset() < end) {
                    ByteBuffer value = record.value();
                    records.add(SERDE.read(new ByteBufferAccessor(value), value.remaining()));
                }
            }
        }
        return records;
    }

    private static ObjectNode describe(MetadataImage image) {
        ObjectNode root = JSON.createObjectNode();
        root.put("metadata_version", image.features().metadataVersion().map(one -> (int) one.featureLevel()).orElse(null));
        ObjectNode features = root.putObject("features");
        image.features().finalizedVersions().forEach((name, level) -> features.put(name, (int) level));
        ObjectNode brokers = root.putObject("brokers");
        image.cluster().brokers().forEach((id, broker) -> brokers.set(String.valueOf(id), describe(broker)));
        ObjectNode controllers = root.putObject("controllers");
        image.cluster().controllers().forEach((id, one) -> controllers.set(String.valueOf(id), describe(one)));
        ObjectNode topics = root.putObject("topics");
        for (TopicImage topic : image.topics().topicsByName().values()) {
            ObjectNode node = topics.putObject(topic.name());
            node.put("topic_id", topic.id().toString());
            ObjectNode partitions = node.putObject("partitions");
            topic.partitions().forEach((number, one) -> partitions.set(String.valueOf(number), describe(one)));
        }
        ObjectNode configs = root.putObject("configs");
        image.configs().resourceData().forEach((resource, values) -> {
            ObjectNode node = configs.putObject(resource.type().id() + " " + resource.name());
            values.data().forEach(node::put);
        });
        ObjectNode quotas = root.putObject("client_quotas");
        image.clientQuotas().entities().forEach((entity, values) -> {
            ObjectNode node = quotas.putObject(new TreeMap<>(entity.entries()).toString());
            values.quotas().forEach(node::put);
        });
        root.put("next_producer_id", image.producerIds().nextProducerId());
        ObjectNode acls = root.putObject("access_control_entries");
        image.acls().acls().forEach((id, acl) -> acls.set(id.toString(), describe(acl)));
        ObjectNode scram = root.putObject("scram_iterations");
        image.scram().mechanisms().forEach((mechanism, users) -> users.forEach(
            (user, data) -> scram.put(user + " " + mechanism.type(), data.iterations())));
        ObjectNode tokens = root.putObject("delegation_tokens");
        image.delegationTokens().tokens().forEach((id, data) -> {
            ArrayNode node = tokens.putArray(id);
            var token = data.tokenInformation();
            node.add(token.owner().toString()).add(token.tokenRequester().toString());
            ArrayNode renewers = node.addArray();
            token.renewers().forEach(renewer -> renewers.add(renewer.toString()));
            node.add(token.issueTimestamp()).add(token.maxTimestamp()).add(token.expiryTimestamp());
        });
        return root;
    }

    private static ObjectNode describe(BrokerRegistration broker) {
        ObjectNode node = JSON.createObjectNode();
        node.put("epoch", broker.epoch());
        node.put("incarnation_id", broker.incarnationId().toString());
        node.set("listeners", listeners(broker.listeners()));
        node.set("supported_features", ranges(broker.supportedFeatures()));
        node.put("rack", broker.rack().orElse(null));
        node.put("is_fenced", broker.fenced());
        node.put("is_in_controlled_shutdown", broker.inControlledShutdown());
        node.put("is_migrating_zk_broker", broker.toString().contains("isMigratingZkBroker=true"));
        node.set("directories", uuids(broker.directories()));
        node.set("cordoned_directories",
            broker.cordonedDirectories() == null ? JSON.nullNode() : uuids(broker.cordonedDirectories()));
        return node;
    }

    private static ObjectNode describe(ControllerRegistration controller) {
        ObjectNode node = JSON.createObjectNode();
        node.put("incarnation_id", controller.incarnationId().toString());
        node.put("is_zk_migration_ready", controller.zkMigrationReady());
        node.set("listeners", listeners(controller.listeners()));
        node.set("supported_features", ranges(controller.supportedFeatures()));
        return node;
    }

    private static ObjectNode describe(PartitionRegistration partition) {
        ObjectNode node = JSON.createObjectNode();
        node.set("replicas", JSON.valueToTree(partition.replicas));
        node.set("directories", uuids(List.of(partition.directories)));
        node.set("isr", JSON.valueToTree(partition.isr));
        node.set("removing_replicas", JSON.valueToTree(partition.removingReplicas));
        node.set("adding_replicas", JSON.valueToTree(partition.addingReplicas));
        node.put("leader", partition.leader);
        node.put("leader_recovery_state", (int) partition.leaderRecoveryState.value());
        node.put("leader_epoch", partition.leaderEpoch);
        node.put("partition_epoch", partition.partitionEpoch);
        node.set("eligible_leader_replicas", JSON.valueToTree(partition.elr));
        node.set("last_known_elr", JSON.valueToTree(partition.lastKnownElr));
        return node;
    }

    private static ArrayNode describe(StandardAcl acl) {
        ArrayNode node = JSON.createArrayNode();
        node.add((int) acl.resourceType().code()).add(acl.resourceName()).add((int) acl.patternType().code());
        node.add(acl.principal()).add(acl.host());
        return node.add((int) acl.operation().code()).add((int) acl.permissionType().code());
    }

    private static ObjectNode listeners(Map<String, Endpoint> listeners) {
        ObjectNode node = JSON.createObjectNode();
        listeners.forEach((name, one) ->
            node.putArray(name).add(one.host()).add(one.port()).add((int) one.securityProtocol().id));
        return node;
    }

    private static ObjectNode ranges(Map<String, VersionRange> ranges) {
        ObjectNode node = JSON.createObjectNode();
        ranges.forEach((name, range) -> node.putArray(name).add((int) range.min()).add((int) range.max()));
        return node;
    }

    private static ArrayNode uuids(Collection<Uuid> ids) {
        ArrayNode node = JSON.createArrayNode();
        ids.forEach(id -> node.add(id.toString()));
        return node;
    }
}
