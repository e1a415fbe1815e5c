import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.log.LogManager;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Opens partition directories with Kafka's own UnifiedLog, tells what it made of each, and closes it cleanly. A request
 * is a line of JSON (directory, clean, log_start_offset, recovery_point, config, offsets to read at), its answer another;
 * the process lives as long as its input. With "cleaning", Kafka's Cleaner does a pass over the log afterwards, and it is told
 * again. A request with log_dir, topics and config has Kafka's LogManager load a whole log
 * directory: the answer has each partition.
 */
public class LoadWithKafka {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_FETCH_BYTES = 64 * 1024;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BrokerTopicStats stats = new BrokerTopicStats();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode request = JSON.readTree(line);
                if (request.has("log_dir"))
                    loadDirectory(request, stats, answer);
                else
                    load(request, stats, answer);
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void load(JsonNode request, BrokerTopicStats stats, ObjectNode answer) throws Exception {
        File directory = new File(request.get("directory").asText());
        Map<String, String> config = JSON.convertValue(request.get("config"),
                JSON.getTypeFactory().constructMapType(TreeMap.class, String.class, String.class));
        Waiting scheduler = new Waiting();
        Map<String, String> before = fingerprints(directory.toPath());
        UnifiedLog log = UnifiedLog.create(directory, new LogConfig(config), request.get("log_start_offset").asLong(),
                request.get("recovery_point").asLong(), scheduler, stats, Time.SYSTEM, 15 * 60 * 1000,
                new ProducerStateManagerConfig(24 * 3600 * 1000, true), 600 * 1000, new LogDirFailureChannel(1),
                request.get("clean").asBoolean(), Optional.empty());
        scheduler.runWhatIsDue();
        tellChanged(before, fingerprints(directory.toPath()), answer.putArray("changed_files"));
        tellLog(log, answer);
        if (request.has("reads")) {
            ArrayNode reads = answer.putArray("reads");
            for (JsonNode offset : request.get("reads"))
                reads.add(firstOffsetRead(log, offset.asLong()));
        } else {
            answer.put("records_sha256", digestOfRecords(log));
        }
        if (request.has("cleaning"))
            clean(log, request.get("cleaning"), answer.putObject("cleaned"));
        log.close();
        scheduler.runWhatIsDue();
    }

    /** Up to where no transaction is open, as the thread of a cleaner does; where nothing is dirty there is no pass. */
    private static void clean(UnifiedLog log, JsonNode cleaning, ObjectNode answer) throws Exception {
        int bufferBytes = cleaning.get("io_buffer_bytes").asInt();
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(cleaning.get("offset_map_bytes").asInt()), bufferBytes, 1 << 20, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        log.updateHighWatermark(log.logEndOffset());
        long firstDirty = cleaning.get("first_dirty_offset").asLong();
        long firstUncleanable = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        long limit = log.logSegments(firstUncleanable, firstUncleanable + 1).get(0).baseOffset();
        if (firstDirty < limit) {
            LogToClean chosen = new LogToClean(log, firstDirty, firstUncleanable, false);
            answer.put("end_offset", cleaner.doClean(chosen, cleaning.get("now").asLong()).getKey());
        }
        tellLog(log, answer);
        answer.put("records_sha256", digestOfRecords(log));
    }

    /** The retention of the default configuration never runs: nothing waits for a task. */
    private static void loadDirectory(JsonNode request, BrokerTopicStats stats, ObjectNode answer) throws Exception {
        Path directory = Path.of(request.get("log_dir").asText());
        Properties overrides = new Properties();
        request.get("config").fields().forEachRemaining(one -> overrides.put(one.getKey(), one.getValue().asText()));
        Set<String> topics = new TreeSet<>();
        request.get("topics").forEach(topic -> topics.add(topic.asText()));
        Map<Path, Map<String, String>> before = new TreeMap<>();
        try (var found = Files.newDirectoryStream(directory, Files::isDirectory)) {
            for (Path one : found)
                before.put(one.getFileName(), fingerprints(one));
        }
        Waiting scheduler = new Waiting();
        LogManager manager = LogManager.apply(brokerConfig(directory), CollectionConverters.asScala(List.<String>of()).toSeq(), resource -> overrides,
                scheduler, Time.SYSTEM, stats, new LogDirFailureChannel(1));
        manager.startup(CollectionConverters.asScala(topics), log -> false);
        scheduler.runWhatIsDue();
        ObjectNode logs = answer.putObject("logs");
        for (UnifiedLog log : CollectionConverters.asJava(manager.allLogs())) {
            Path name = log.dir().toPath().getFileName();
            ObjectNode told = logs.putObject(name.toString());
            tellChanged(before.get(name), fingerprints(log.dir().toPath()), told.putArray("changed_files"));
            tellLog(log, told);
            told.put("topic_id", log.topicId().map(Uuid::toString).orElse(null));
            told.put("recovery_point", log.recoveryPoint());
            told.put("records_sha256", digestOfRecords(log));
        }
        manager.shutdown(-1);
        scheduler.runWhatIsDue();
    }

    private static KafkaConfig brokerConfig(Path directory) {
        return KafkaConfig.fromProps(Utils.mkProperties(Map.of("process.roles", "broker", "node.id", "1", "controller.listener.names",
                "CONTROLLER", "controller.quorum.bootstrap.servers", "localhost:1", "log.dirs", directory.toString(),
                "log.cleaner.enable", "false")));
    }

    private static void tellLog(UnifiedLog log, ObjectNode answer) throws IOException {
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("log_end_offset", log.logEndOffset());
        ArrayNode segments = answer.putArray("segments");
        for (LogSegment segment : log.logSegments())
            segments.addArray().add(segment.baseOffset()).add(segment.size()).add(segment.largestRecordTimestamp().orElse(-1));
        LeaderEpochFileCache epochs = log.leaderEpochCache();
        ArrayNode entries = answer.putArray("leader_epochs");
        for (EpochEntry entry : epochs.epochEntries())
            entries.addArray().add(entry.epoch()).add(entry.startOffset());
        tellProducers(log, answer.putArray("producers"));
    }

    private static void tellProducers(UnifiedLog log, ArrayNode producers) {
        for (ProducerStateEntry entry : new TreeMap<>(log.producerStateManager().activeProducers()).values()) {
            ObjectNode producer = producers.addObject();
            producer.put("producer_id", entry.producerId());
            producer.put("producer_epoch", entry.producerEpoch());
            producer.put("coordinator_epoch", entry.coordinatorEpoch());
            producer.put("last_timestamp", entry.lastTimestamp());
            producer.put("current_txn_first_offset", entry.currentTxnFirstOffset().orElse(-1));
            ArrayNode batches = producer.putArray("batches");
            for (BatchMetadata batch : entry.batchMetadata())
                batches.addArray().add(batch.firstSeq()).add(batch.lastSeq()).add(batch.firstOffset()).add(batch.lastOffset())
                        .add(batch.timestamp());
        }
    }

    /** Base offset of the first batch that a read there returns, -1 for none. */
    private static long firstOffsetRead(UnifiedLog log, long offset) throws IOException {
        for (RecordBatch batch : log.read(offset, MAX_FETCH_BYTES, FetchIsolation.LOG_END, true).records.batches())
            return batch.baseOffset();
        return -1;
    }

    /** Of everything that a consumer of the whole log sees, batch by batch and record by record. */
    private static String digestOfRecords(UnifiedLog log) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        DataOutputStream out = new DataOutputStream(new DigestOutputStream(OutputStream.nullOutputStream(), digest));
        long offset = log.logStartOffset();
        while (offset < log.logEndOffset()) {
            long start = offset;
            for (RecordBatch batch : log.read(offset, MAX_FETCH_BYTES, FetchIsolation.LOG_END, true).records.batches()) {
                batch.ensureValid();
                digest(batch, out);
                offset = batch.nextOffset();
            }
            if (offset == start)
                break; // the rest is a gap
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static void digest(RecordBatch batch, DataOutputStream out) throws IOException {
        out.writeLong(batch.baseOffset());
        out.writeLong(batch.lastOffset());
        out.writeByte(batch.magic());
        out.writeByte(batch.compressionType().id);
        out.writeByte(batch.timestampType().id);
        out.writeByte((batch.isTransactional() ? 1 : 0) + (batch.isControlBatch() ? 2 : 0));
        out.writeInt(batch.partitionLeaderEpoch());
        out.writeLong(batch.maxTimestamp());
        out.writeLong(batch.producerId());
        out.writeShort(batch.producerEpoch());
        out.writeInt(batch.baseSequence());
        for (Record record : batch) {
            out.writeLong(record.offset());
            out.writeLong(record.timestamp());
            write(record.key(), out);
            write(record.value(), out);
            out.writeInt(record.headers().length);
            for (Header header : record.headers()) {
                write(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)), out);
                write(header.value() == null ? null : ByteBuffer.wrap(header.value()), out);
            }
        }
    }

    private static void write(ByteBuffer bytes, DataOutputStream out) throws IOException {
        if (bytes == null) {
            out.writeInt(-1);
            return;
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        out.writeInt(copy.length);
        out.write(copy);
    }

    /** A file that is written again with the same bytes has another time or inode. */
    private static Map<String, String> fingerprints(Path directory) throws IOException {
        Map<String, String> found = new TreeMap<>();
        try (var files = Files.newDirectoryStream(directory)) {
            for (Path file : files) {
                BasicFileAttributes status = Files.readAttributes(file, BasicFileAttributes.class);
                found.put(file.getFileName().toString(), status.size() + " " + status.lastModifiedTime() + " " + status.fileKey());
            }
        }
        return found;
    }

    private static void tellChanged(Map<String, String> before, Map<String, String> after, ArrayNode changed) {
        TreeSet<String> names = new TreeSet<>(before.keySet());
        names.addAll(after.keySet());
        for (String name : names)
            if (!after.getOrDefault(name, "").equals(before.get(name)))
                changed.add(name);
    }

    /** A task that is not run can be cancelled all the same. */
    private static final class Never extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return Long.MAX_VALUE;
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(getDelay(TimeUnit.MILLISECONDS), other.getDelay(TimeUnit.MILLISECONDS));
        }
    }

    /** Keeps what Kafka leaves to a thread, and runs it when asked; what has a delay or a period is left out. */
    private static final class Waiting implements Scheduler {
        private final List<Runnable> due = new ArrayList<>();

        @Override
        public synchronized ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs < 0)
                due.add(task);
            return new Never();
        }

        void runWhatIsDue() {
            List.copyOf(due).forEach(Runnable::run);
            due.clear();
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
