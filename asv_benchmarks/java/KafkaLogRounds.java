import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

import com.sun.management.OperatingSystemMXBean;

import kafka.log.LogManager;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Kafka's UnifiedLog, one measured round per line of input, so that its rounds come in turn with those of another process.
 *
 * A line holds words parted by tabs: pool FILE; append leader|follower DIR; append_and_flush THREADS COUNT DIR; open DIR CLEAN RECOVERY_POINT SEGMENT_BYTES and
 * open_and_close with the same; start LOG_DIR THREADS, of a LogManager that is shut down after that; clean DIR MAP_BYTES IO_BUFFER_BYTES SEGMENT_BYTES; image SEGMENT, the image of a metadata log; keep DIR, the log that read COUNT MAX_BYTES and timestamps COUNT FROM TO then ask. The
 * answer is CPU seconds of this thread, wall seconds and the work done: collector and compiler count for nothing, but where
 * threads append.
 */
public class KafkaLogRounds {
    private static final BrokerTopicStats STATS = new BrokerTopicStats(false);
    private static final RequestLocal REQUEST = RequestLocal.withThreadConfinedCaching();
    private static final int METADATA_READ_BYTES = 8 * 1024 * 1024;
    private static final Random CHOOSER = new Random(20130101);

    private final List<ByteBuffer> pool = new ArrayList<>();
    private UnifiedLog kept;
    private Cleaner cleaner;
    private long sink;

    private interface Work {
        long run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        KafkaLogRounds rounds = new KafkaLogRounds();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine())
            System.out.println(rounds.round(line.split("\t")));
    }

    private String round(String[] words) throws Exception {
        switch (words[0]) {
            case "pool":
                return readPool(Path.of(words[1]));
            case "append":
                return append(words[1].equals("leader"), new File(words[2]));
            case "append_and_flush":
                return appendAndFlush(Integer.parseInt(words[1]), Integer.parseInt(words[2]), new File(words[3]));
            case "open":
                return open(words, false);
            case "open_and_close":
                return open(words, true);
            case "start":
                return start(words[1], words[2]);
            case "clean":
                return clean(new File(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "image":
                return image(new File(words[1]));
            case "keep":
                if (kept != null)
                    kept.closeHandlers();
                kept = open(new File(words[1]), true, Long.MAX_VALUE, 1 << 30);
                return "0 0 " + kept.numberOfSegments();
            case "read":
                return read(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            default:
                return timestamps(Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
        }
    }

    private static String measure(Work work) throws Exception {
        return measure(work, () -> ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime());
    }

    private static String measure(Work work, LongSupplier cpuClock) throws Exception {
        long cpu = cpuClock.getAsLong();
        long wall = System.nanoTime();
        long units = work.run();
        wall = System.nanoTime() - wall;
        cpu = cpuClock.getAsLong() - cpu;
        return cpu / 1e9 + " " + wall / 1e9 + " " + units;
    }

    /** The file holds batches, one behind another, as they are on the wire. */
    private String readPool(Path file) throws IOException {
        ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(file));
        pool.clear();
        while (all.hasRemaining()) {
            byte[] batch = new byte[12 + all.getInt(all.position() + 8)];
            all.get(batch);
            pool.add(ByteBuffer.wrap(batch));
        }
        System.gc();
        return "0 0 " + pool.size();
    }

    private String append(boolean leads, File directory) throws Exception {
        Files.createDirectory(directory.toPath());
        UnifiedLog log = open(directory, true, 0, 1 << 30);
        String measured = measure(() -> {
            long bytes = 0;
            for (ByteBuffer batch : pool) {
                if (leads) {
                    batch.putLong(0, 0L); // as a client sends it: the log has stamped it the time before
                    log.appendAsLeader(MemoryRecords.readableRecords(batch.duplicate()), 0, AppendOrigin.CLIENT, REQUEST,
                            VerificationGuard.SENTINEL, (short) 2);
                } else {
                    log.appendAsFollower(MemoryRecords.readableRecords(batch.duplicate()), 0);
                }
                bytes += batch.limit();
            }
            return bytes;
        });
        remove(log, directory);
        return measured;
    }

    /** Batches are read and checked as a broker's client of the quorum does, and an image is made of each 8 MiB of them. */
    private static String image(File segment) throws Exception {
        return measure(() -> {
            MetadataImage[] made = { MetadataImage.EMPTY };
            MetadataBatchLoader loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM, (message, error) -> {
                throw new IllegalStateException(message, error);
            }, (delta, image, manifest) -> made[0] = image, SupportedConfigChecker.TRUE);
            loader.resetToImage(made[0]);
            long bytes = 0;
            try (FileRecords records = FileRecords.open(segment, false); RecordsIterator<ApiMessageAndVersion> batches =
                    new RecordsIterator<>(records, new MetadataRecordSerde(), BufferSupplier.create(), METADATA_READ_BYTES, true, new LogContext())) {
                while (batches.hasNext()) {
                    Batch<ApiMessageAndVersion> batch = batches.next();
                    loader.loadBatch(batch, LeaderAndEpoch.UNKNOWN);
                    bytes += batch.sizeInBytes();
                    if (bytes >= METADATA_READ_BYTES || !batches.hasNext()) {
                        loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                        bytes = 0;
                    }
                }
            }
            return made[0].provenance().lastContainedOffset() + 1;
        });
    }

    private static void remove(UnifiedLog log, File directory) throws IOException {
        log.closeHandlers();
        for (File file : directory.listFiles())
            Files.delete(file.toPath());
        Files.delete(directory.toPath());
    }

    /** Each thread appends a batch and flushes the log, so often. */
    private String appendAndFlush(int threads, int count, File directory) throws Exception {
        Files.createDirectory(directory.toPath());
        UnifiedLog log = open(directory, true, 0, 1 << 30);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        String measured = measure(() -> {
            List<Future<Long>> appending = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++)
                appending.add(pool.submit(() -> appendAndFlush(log, count)));
            long appended = 0;
            for (Future<Long> each : appending)
                appended += each.get();
            return appended;
        }, () -> ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime());
        pool.shutdown();
        remove(log, directory);
        return measured;
    }

    private long appendAndFlush(UnifiedLog log, int count) throws IOException {
        RequestLocal request = RequestLocal.withThreadConfinedCaching();
        for (int i = 0; i < count; i++) {
            ByteBuffer sent = this.pool.get(i % this.pool.size());
            ByteBuffer batch = ByteBuffer.allocate(sent.limit()).put(sent.duplicate().rewind()).flip(); // each has its own
            log.appendAsLeader(MemoryRecords.readableRecords(batch), 0, AppendOrigin.CLIENT, request, VerificationGuard.SENTINEL,
                    (short) 2);
            log.flush(false);
        }
        return count;
    }

    private String open(String[] words, boolean closes) throws Exception {
        UnifiedLog[] opened = new UnifiedLog[1];
        String measured = measure(() -> {
            opened[0] = open(new File(words[1]), words[2].equals("clean"), Long.parseLong(words[3]), Integer.parseInt(words[4]));
            if (closes)
                opened[0].close();
            return opened[0].numberOfSegments();
        });
        if (!closes)
            opened[0].closeHandlers();
        return measured;
    }

    /** Each log answers its end, as in the other process. The manager has no task and no cleaner. */
    private String start(String logDir, String threads) throws Exception {
        KafkaConfig config = KafkaConfig.fromProps(Utils.mkProperties(Map.of("process.roles", "broker", "node.id", "1",
                "controller.listener.names", "CONTROLLER", "controller.quorum.bootstrap.servers", "localhost:1", "log.dirs", logDir,
                "log.cleaner.enable", "false", "num.recovery.threads.per.data.dir", threads)));
        LogManager[] started = new LogManager[1];
        String measured = measure(() -> {
            started[0] = LogManager.apply(config, CollectionConverters.asScala(List.<String>of()).toSeq(), resource -> new Properties(),
                    new Idle(), Time.SYSTEM, STATS, new LogDirFailureChannel(1));
            started[0].startup(CollectionConverters.asScala(Set.<String>of()), log -> false);
            long logs = 0;
            for (UnifiedLog log : CollectionConverters.asJava(started[0].allLogs())) {
                sink += log.logEndOffset();
                logs++;
            }
            return logs;
        }, () -> ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime());
        started[0].shutdown(-1);
        return measured;
    }

    /** All of the log but the active segment, which is empty. The map is kept, as a cleaner's thread does. */
    private String clean(File directory, int mapBytes, int ioBufferBytes, int segmentBytes) throws Exception {
        if (cleaner == null)
            cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes), ioBufferBytes, 64 << 20, 0.9,
                    new Throttler(Double.MAX_VALUE, 300, "x", "y", Time.SYSTEM), Time.SYSTEM, partition -> { });
        UnifiedLog log = open(directory, true, Long.MAX_VALUE, segmentBytes);
        log.updateHighWatermark(log.logEndOffset());
        LogToClean all = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
        long size = log.size();
        String measured = measure(() -> {
            if (cleaner.clean(all).getKey() != log.logEndOffset())
                throw new IllegalStateException("not all of the log was cleaned");
            return size;
        });
        log.closeHandlers();
        return measured;
    }

    private String read(int count, int maxBytes) throws Exception {
        long end = kept.logEndOffset();
        return measure(() -> {
            for (int i = 0; i < count; i++)
                sink += kept.read(CHOOSER.nextLong(end), maxBytes, FetchIsolation.LOG_END, true).records.sizeInBytes();
            return count;
        });
    }

    private String timestamps(int count, long from, long to) throws Exception {
        return measure(() -> {
            for (int i = 0; i < count; i++)
                sink += kept.fetchOffsetByTimestamp(CHOOSER.nextLong(from, to), Optional.empty()).timestampAndOffsetOpt().get().offset;
            return count;
        });
    }

    private static UnifiedLog open(File directory, boolean clean, long recoveryPoint, int segmentBytes) throws IOException {
        LogConfig config = new LogConfig(Map.of("internal.segment.bytes", segmentBytes, "retention.ms", -1L,
                "max.message.bytes", 64 << 20, "segment.ms", Long.MAX_VALUE, "segment.index.bytes", 10 << 20));
        return UnifiedLog.create(directory, config, 0, recoveryPoint, new Idle(), STATS, Time.SYSTEM, 15 * 60 * 1000,
                new ProducerStateManagerConfig(24 * 3600 * 1000, false), 600 * 1000, new LogDirFailureChannel(1), clean,
                Optional.empty());
    }

    /** What Kafka leaves to other threads is no part of what is measured. */
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
