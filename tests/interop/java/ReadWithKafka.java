import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.TimeIndex;

/** Reads a partition directory with Kafka's own classes: every record as a line of JSON, then a line per index file. */
public class ReadWithKafka {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String directory : arguments) {
            File[] logs = new File(directory).listFiles((dir, name) -> name.endsWith(".log"));
            Arrays.sort(logs);
            for (File log : logs) {
                printRecords(log, out);
                printIndexes(log, out);
            }
        }
        out.flush();
    }

    private static void printRecords(File log, PrintStream out) throws Exception {
        try (FileRecords records = FileRecords.open(log, false)) {
            int valid = 0;
            for (FileLogInputStream.FileChannelRecordBatch batch : records.batches()) {
                batch.ensureValid();
                valid += batch.sizeInBytes();
                for (Record record : batch) {
                    out.print("{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
                            + ",\"timestampType\":\"" + batch.timestampType() + "\",\"leaderEpoch\":" + batch.partitionLeaderEpoch()
                            + ",\"key\":" + base64(record.key()) + ",\"value\":" + base64(record.value()) + ",\"headers\":[");
                    String comma = "";
                    for (Header header : record.headers()) {
                        byte[] value = header.value();
                        out.print(comma + "[" + base64(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))) + ","
                                + base64(value == null ? null : ByteBuffer.wrap(value)) + "]");
                        comma = ",";
                    }
                    out.print("]}\n");
                }
            }
            if (valid != records.sizeInBytes())
                throw new IllegalStateException(log.getName() + ": " + valid + " valid bytes of " + records.sizeInBytes());
        }
    }

    private static void printIndexes(File log, PrintStream out) throws Exception {
        String stem = log.getPath().substring(0, log.getPath().length() - ".log".length());
        long base = Long.parseLong(log.getName().substring(0, 20));
        int size = 10 * 1024 * 1024;
        OffsetIndex offsets = new OffsetIndex(new File(stem + ".index"), base, size, false);
        offsets.sanityCheck();
        TimeIndex times = new TimeIndex(new File(stem + ".timeindex"), base, size, false);
        times.sanityCheck();
        out.print("{\"index\":" + base + ",\"offset_entries\":" + offsets.entries() + ",\"last_offset\":" + offsets.lastOffset()
                + ",\"time_entries\":" + times.entries() + ",\"last_timestamp\":" + times.lastEntry().timestamp() + "}\n");
        offsets.closeHandler();
        times.closeHandler();
    }

    private static String base64(ByteBuffer bytes) {
        if (bytes == null)
            return "null";
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return "\"" + Base64.getEncoder().encodeToString(copy) + "\"";
    }
}
