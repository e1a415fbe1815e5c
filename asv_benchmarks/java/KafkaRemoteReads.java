import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RemoteStorageFetchInfo;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's RemoteLogManager.read over a folder, one measured round per line of input: MAX_BYTES.
 *
 * The arguments are the directory of a log, that of the index cache, and the folder of the segments, where a file
 * "segments" has a line for each: start offset, end offset, bytes, largest timestamp, id, and a file "offsets" one for each
 * read of a round. Streams are opened as Kafka's LocalTieredStorage does. The answer is CPU seconds of this thread, wall
 * seconds and the number of reads.
 */
public class KafkaRemoteReads {
    private static final Uuid TOPIC_ID = new Uuid(0, 7);
    private static final TreeMap<Long, RemoteLogSegmentMetadata> SEGMENTS = new TreeMap<>();
    private static Path folder;

    public static void main(String[] arguments) throws Exception {
        TopicIdPartition partition = new TopicIdPartition(TOPIC_ID, new TopicPartition("bench", 0));
        folder = Path.of(arguments[2]);
        for (String line : Files.readAllLines(folder.resolve("segments"))) {
            String[] fields = line.split(" ");
            long start = Long.parseLong(fields[0]);
            SEGMENTS.put(start, new RemoteLogSegmentMetadata(new RemoteLogSegmentId(partition, Uuid.fromString(fields[4])),
                    start, Long.parseLong(fields[1]), Long.parseLong(fields[3]), 1, 0, Integer.parseInt(fields[2]),
                    Map.of(0, start), true));
        }
        UnifiedLog log = open(new File(arguments[0]));
        Map<String, Object> settings = Map.of(
                "remote.log.storage.manager.class.name", FolderStorage.class.getName(),
                "remote.log.metadata.manager.class.name", KnownSegments.class.getName());
        Manager manager = new Manager(new RemoteLogManagerConfig(
                new AbstractConfig(RemoteLogManagerConfig.configDef(), settings, false)), arguments[1], log);
        Field ids = RemoteLogManager.class.getDeclaredField("topicIdByPartitionMap");
        ids.setAccessible(true);
        @SuppressWarnings("unchecked")
        Map<TopicPartition, Uuid> known = (Map<TopicPartition, Uuid>) ids.get(manager);
        known.put(partition.topicPartition(), TOPIC_ID);
        long[] offsets = Files.readAllLines(folder.resolve("offsets")).stream().mapToLong(Long::parseLong).toArray();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            System.out.println(read(manager, partition, offsets, Integer.parseInt(words[0])));
        }
        manager.close();
    }

    private static String read(RemoteLogManager manager, TopicIdPartition partition, long[] offsets, int maxBytes)
            throws Exception {
        long bytes = 0;
        long cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long wall = System.nanoTime();
        for (long offset : offsets) {
            FetchRequest.PartitionData data = new FetchRequest.PartitionData(TOPIC_ID, offset, 0, maxBytes,
                    Optional.empty());
            bytes += manager.read(new RemoteStorageFetchInfo(maxBytes, true, partition, data,
                    FetchIsolation.HIGH_WATERMARK)).records.sizeInBytes();
        }
        wall = System.nanoTime() - wall;
        cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpu;
        if (bytes == 0)
            throw new IllegalStateException("nothing was read");
        return cpu / 1e9 + " " + wall / 1e9 + " " + offsets.length;
    }

    private static UnifiedLog open(File directory) throws IOException {
        LogConfig config = new LogConfig(Map.of("internal.segment.bytes", 1 << 30, "retention.ms", -1L,
                "max.message.bytes", 64 << 20, "segment.ms", Long.MAX_VALUE, "segment.index.bytes", 10 << 20));
        return UnifiedLog.create(directory, config, 0, Long.MAX_VALUE, new Idle(), new BrokerTopicStats(false), Time.SYSTEM,
                15 * 60 * 1000, new ProducerStateManagerConfig(24 * 3600 * 1000, false), 600 * 1000,
                new LogDirFailureChannel(1), true, Optional.empty());
    }

    /** Its class loader is the one that finds the classes below. */
    private static final class Manager extends RemoteLogManager {
        Manager(RemoteLogManagerConfig config, String directory, UnifiedLog log) throws IOException {
            super(config, 1, directory, "cluster", Time.SYSTEM, partition -> Optional.of(log), (partition, start) -> { },
                    new BrokerTopicStats(true), new Metrics(), Optional.empty());
        }
    }

    public static final class FolderStorage implements RemoteStorageManager {
        private static Path file(RemoteLogSegmentMetadata metadata, String suffix) {
            return folder.resolve(String.format("%020d-%s.%s", metadata.startOffset(), metadata.remoteLogSegmentId().id(),
                    suffix));
        }

        @Override
        public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
            try {
                InputStream stream = Files.newInputStream(file(metadata, "log"), StandardOpenOption.READ);
                stream.skip(start);
                return stream;
            } catch (IOException error) {
                throw new RemoteStorageException(error);
            }
        }

        @Override
        public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
                throws RemoteStorageException {
            return fetchLogSegment(metadata, start);
        }

        @Override
        public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
            String suffix = type == IndexType.OFFSET ? "index" : type == IndexType.TIMESTAMP ? "timeindex" : "txnindex";
            try {
                return Files.newInputStream(file(metadata, suffix), StandardOpenOption.READ);
            } catch (IOException error) {
                throw new RemoteResourceNotFoundException(error);
            }
        }

        @Override
        public Optional<RemoteLogSegmentMetadata.CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata,
                LogSegmentData data) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void configure(Map<String, ?> settings) { }

        @Override
        public void close() { }
    }

    public static final class KnownSegments implements RemoteLogMetadataManager {
        @Override
        public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(TopicIdPartition partition, int epoch,
                long offset) {
            Map.Entry<Long, RemoteLogSegmentMetadata> floor = SEGMENTS.floorEntry(offset);
            return floor == null || floor.getValue().endOffset() < offset ? Optional.empty() : Optional.of(floor.getValue());
        }

        @Override
        public CompletableFuture<Void> addRemoteLogSegmentMetadata(RemoteLogSegmentMetadata metadata) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> updateRemoteLogSegmentMetadata(RemoteLogSegmentMetadataUpdate update) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Optional<Long> highestOffsetForEpoch(TopicIdPartition partition, int epoch) {
            return Optional.of(SEGMENTS.lastEntry().getValue().endOffset());
        }

        @Override
        public CompletableFuture<Void> putRemotePartitionDeleteMetadata(RemotePartitionDeleteMetadata metadata) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition) {
            return SEGMENTS.values().iterator();
        }

        @Override
        public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition, int epoch) {
            return SEGMENTS.values().iterator();
        }

        @Override
        public void onPartitionLeadershipChanges(Set<TopicIdPartition> leaders, Set<TopicIdPartition> followers) { }

        @Override
        public void onStopPartitions(Set<TopicIdPartition> partitions) { }

        @Override
        public long remoteLogSize(TopicIdPartition partition, int epoch) {
            return 0;
        }

        @Override
        public void configure(Map<String, ?> settings) { }

        @Override
        public void close() { }
    }

    /** No task of the log runs. */
    private static final class Idle implements Scheduler {
        private static final ScheduledThreadPoolExecutor NEVER = new ScheduledThreadPoolExecutor(0, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return NEVER.schedule(() -> { }, 365, TimeUnit.DAYS);
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
