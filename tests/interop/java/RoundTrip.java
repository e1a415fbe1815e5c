import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Reads one batch a request with Kafka's own classes, answers with what it says and with the batch that Kafka builds of
 * the same records. Requests and answers are an int32 size and as many bytes; the process lives as long as its input.
 */
public class RoundTrip {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(System.out));
        while (true) {
            byte[] request;
            try {
                request = new byte[in.readInt()];
            } catch (EOFException end) {
                return;
            }
            in.readFully(request);
            byte[] answer;
            try {
                answer = answer(request);
            } catch (Exception error) {
                ByteArrayOutputStream text = new ByteArrayOutputStream();
                text.write(1);
                text.write(error.toString().getBytes(StandardCharsets.UTF_8));
                answer = text.toByteArray();
            }
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] answer(byte[] request) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeByte(0);
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(request));
        MutableRecordBatch batch = records.batches().iterator().next();
        if (batch.sizeInBytes() != request.length)
            throw new IllegalStateException(request.length - batch.sizeInBytes() + " bytes are left behind the batch");
        batch.ensureValid();
        ByteBufferOutputStream rebuilt = new ByteBufferOutputStream(request.length + 1024);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(rebuilt, batch.magic(),
                Compression.of(batch.compressionType()).build(), batch.timestampType(), batch.baseOffset(),
                batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
                batch.isTransactional(), false, batch.partitionLeaderEpoch(), Integer.MAX_VALUE);
        out.writeByte(batch.magic());
        out.writeByte(batch.compressionType().id);
        out.writeByte(batch.timestampType().id);
        out.writeByte(batch.isTransactional() ? 1 : 0);
        out.writeLong(batch.baseOffset());
        out.writeLong(batch.lastOffset());
        out.writeLong(batch.maxTimestamp());
        out.writeLong(batch.producerId());
        out.writeShort(batch.producerEpoch());
        out.writeInt(batch.baseSequence());
        out.writeInt(batch.lastSequence());
        out.writeInt(batch.partitionLeaderEpoch());
        int count = 0;
        ByteArrayOutputStream rows = new ByteArrayOutputStream();
        DataOutputStream row = new DataOutputStream(rows);
        for (Record record : batch) {
            ++count;
            row.writeLong(record.offset());
            row.writeLong(record.timestamp());
            row.writeInt(record.sequence());
            write(row, record.key());
            write(row, record.value());
            row.writeInt(record.headers().length);
            for (Header header : record.headers()) {
                write(row, ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)));
                write(row, header.value() == null ? null : ByteBuffer.wrap(header.value()));
            }
            builder.appendWithOffset(record.offset(), record.timestamp(), record.key(), record.value(), record.headers());
        }
        out.writeInt(count);
        out.write(rows.toByteArray());
        write(out, builder.build().buffer());
        return bytes.toByteArray();
    }

    private static void write(DataOutputStream out, ByteBuffer bytes) throws Exception {
        if (bytes == null) {
            out.writeInt(-1);
            return;
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        out.writeInt(copy.length);
        out.write(copy);
    }
}
