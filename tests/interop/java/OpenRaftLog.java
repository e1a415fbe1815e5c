import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.Isolation;
import org.apache.kafka.raft.MetadataLogConfig;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;

/**
 * Opens the metadata log in a log directory with Kafka's own KafkaRaftLog, and prints what it says: offsets, epochs, the
 * batches, and the content of the snapshots that are named, each as offset and epoch.
 */
public class OpenRaftLog {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final RecordSerde<byte[]> BYTES = new RecordSerde<>() {
        public int recordSize(byte[] data, ObjectSerializationCache cache) {
            return data.length;
        }

        public void write(byte[] data, ObjectSerializationCache cache, Writable out) {
            out.writeByteArray(data);
        }

        public byte[] read(Readable input, int size) {
            return input.readArray(size);
        }
    };

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        MetadataLogConfig config = new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, Map.of(), false));
        KafkaRaftLog log = KafkaRaftLog.createLog(new TopicPartition("__cluster_metadata", 0), Uuid.METADATA_TOPIC_ID,
            new File(arguments[0], "__cluster_metadata-0"), Time.SYSTEM, scheduler, config, 1);
        ObjectNode answer = JSON.createObjectNode();
        answer.put("start_offset", log.startOffset());
        answer.put("end_offset", log.endOffset().offset());
        answer.put("last_fetched_epoch", log.lastFetchedEpoch());
        log.latestSnapshotId().ifPresent(id -> answer.set("latest_snapshot", idOf(id)));
        log.earliestSnapshotId().ifPresent(id -> answer.set("earliest_snapshot", idOf(id)));
        ArrayNode batches = answer.putArray("batches");
        long offset = log.startOffset();
        while (offset < log.endOffset().offset()) {
            Records records = log.read(offset, Isolation.UNCOMMITTED, 1 << 20).records;
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                batches.addArray().add(batch.baseOffset()).add(batch.lastOffset()).add(batch.partitionLeaderEpoch());
                offset = batch.lastOffset() + 1;
            }
        }
        ArrayNode snapshots = answer.putArray("snapshots");
        for (int i = 1; i < arguments.length; i += 2) {
            OffsetAndEpoch id = new OffsetAndEpoch(Long.parseLong(arguments[i]), Integer.parseInt(arguments[i + 1]));
            RawSnapshotReader raw = log.readSnapshot(id).get();
            ObjectNode snapshot = snapshots.addObject();
            try (RecordsSnapshotReader<byte[]> reader = RecordsSnapshotReader.of(raw, BYTES, BufferSupplier.NO_CACHING,
                    1 << 20, true, new LogContext())) {
                snapshot.put("last_contained_log_timestamp", reader.lastContainedLogTimestamp());
                ArrayNode records = snapshot.putArray("records");
                ArrayNode controls = snapshot.putArray("controls");
                while (reader.hasNext()) {
                    Batch<byte[]> batch = reader.next();
                    for (ControlRecord control : batch.controlRecords()) {
                        controls.add(control.type().name());
                    }
                    for (byte[] record : batch.records()) {
                        records.add(HexFormat.of().formatHex(record));
                    }
                }
            }
        }
        log.close();
        scheduler.shutdown();
        out.println(JSON.writeValueAsString(answer));
        out.flush();
    }

    private static ArrayNode idOf(OffsetAndEpoch id) {
        return JSON.createArrayNode().add(id.offset()).add(id.epoch());
    }
}
