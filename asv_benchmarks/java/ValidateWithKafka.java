import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * Kafka's LogValidator over one batch again and again, a round per line of input.
 *
 * Arguments: the file with the batch, source codec, target codec, how often a round validates it. A round prints the CPU
 * seconds of this thread and the records seen: collector and compiler count for nothing.
 */
public class ValidateWithKafka {
    public static void main(String[] arguments) throws Exception {
        ByteBuffer batch = ByteBuffer.wrap(Files.readAllBytes(Path.of(arguments[0])));
        CompressionType source = CompressionType.forName(arguments[1]);
        Compression target = Compression.of(CompressionType.forName(arguments[2])).build();
        int repeats = Integer.parseInt(arguments[3]);
        BufferSupplier buffers = BufferSupplier.create();
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in));
        while (rounds.readLine() != null) {
            long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            long records = validate(batch, source, target, repeats, buffers);
            long nanoseconds = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - start;
            System.out.println(nanoseconds / 1e9 + " " + records);
        }
    }

    private static long validate(ByteBuffer batch, CompressionType source, Compression target, int repeats, BufferSupplier buffers) {
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(0);
        for (int i = 0; i < repeats; i++) {
            batch.putLong(0, 0L); // what the time before has stamped
            LogValidator validator = new LogValidator(MemoryRecords.readableRecords(batch.duplicate()),
                    new TopicPartition("topic", 0), Time.SYSTEM, source, target, false, RecordBatch.MAGIC_VALUE_V2,
                    TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT);
            validator.validateMessagesAndAssignOffsets(offset, new NoMetrics(), buffers);
        }
        return offset.value;
    }

    private static class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
