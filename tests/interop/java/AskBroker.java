import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A client of the broker whose address is the argument. One command a line, words between tabs; answers are lines that end with "done".
 * create TOPIC PARTITIONS; read TOPIC ISOLATION [TIMESTAMP]: every record, or those from the first of that time on, as JSON;
 * produce TOPIC PARTITION VALUE...; offsets TOPIC WHICH: that offset of each partition as JSON;
 * delete TOPIC PARTITION OFFSET: the records before that offset
 */
public class AskBroker {
    private static final int SECONDS = 60;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, Object> config = Map.of("bootstrap.servers", arguments[0], "default.api.timeout.ms", 1000 * SECONDS);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(config)) {
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split("\t");
                switch (words[0]) {
                    case "create" -> admin.createTopics(List.of(new NewTopic(words[1], Optional.of(Integer.parseInt(words[2])), Optional.empty())))
                            .all().get(SECONDS, TimeUnit.SECONDS);
                    case "read" -> read(config, partitions(admin, words[1]), words, out);
                    case "produce" -> produce(config, words);
                    case "delete" -> admin.deleteRecords(Map.of(new TopicPartition(words[1], Integer.parseInt(words[2])),
                            RecordsToDelete.beforeOffset(Long.parseLong(words[3])))).all().get(SECONDS, TimeUnit.SECONDS);
                    case "offsets" -> offsets(admin, partitions(admin, words[1]), words[2], out);
                    default -> throw new IllegalArgumentException(line);
                }
                out.print("done\n");
                out.flush();
            }
        }
    }

    /** The partitions of a topic once each has a leader. */
    private static List<TopicPartition> partitions(Admin admin, String topic) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (true) {
            TopicDescription description = admin.describeTopics(List.of(topic)).allTopicNames().get(SECONDS, TimeUnit.SECONDS).get(topic);
            List<TopicPartition> found = new ArrayList<>();
            for (TopicPartitionInfo partition : description.partitions()) {
                if (partition.leader() != null && !partition.leader().isEmpty())
                    found.add(new TopicPartition(topic, partition.partition()));
            }
            if (found.size() == description.partitions().size())
                return found;
            if (System.nanoTime() > end)
                throw new IllegalStateException(description.toString());
            Thread.sleep(50);
        }
    }

    private static void read(Map<String, Object> config, List<TopicPartition> partitions, String[] words, PrintStream out) {
        Map<String, Object> own = new HashMap<>(config);
        own.put("check.crcs", true);
        own.put("isolation.level", words[2]);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            if (words.length > 3) {
                Map<TopicPartition, Long> times = new HashMap<>();
                partitions.forEach(partition -> times.put(partition, Long.parseLong(words[3])));
                consumer.offsetsForTimes(times).forEach((partition, found) -> {
                    if (found == null)
                        consumer.seekToEnd(List.of(partition));
                    else
                        consumer.seek(partition, found.offset());
                });
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long last = System.nanoTime();
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record, out);
                    last = System.nanoTime();
                }
                if (System.nanoTime() - last > TimeUnit.SECONDS.toNanos(SECONDS))
                    throw new IllegalStateException("nothing more comes, before " + ends);
            }
        }
    }

    private static void offsets(Admin admin, List<TopicPartition> partitions, String which, PrintStream out) throws Exception {
        OffsetSpec asked = switch (which) {
            case "earliest" -> OffsetSpec.earliest();
            case "earliest_local" -> OffsetSpec.earliestLocal();
            case "latest_tiered" -> OffsetSpec.latestTiered();
            default -> throw new IllegalArgumentException(which);
        };
        for (TopicPartition partition : partitions) {
            long offset = admin.listOffsets(Map.of(partition, asked)).partitionResult(partition).get(SECONDS, TimeUnit.SECONDS).offset();
            out.print("{\"partition\":" + partition.partition() + ",\"offset\":" + offset + "}\n");
        }
    }

    private static void produce(Map<String, Object> config, String[] words) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 3; i < words.length; i++)
                producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, words[i].getBytes(StandardCharsets.UTF_8)))
                        .get(SECONDS, TimeUnit.SECONDS);
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, PrintStream out) {
        out.print("{\"partition\":" + record.partition() + ",\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
                + ",\"timestampType\":\"" + record.timestampType() + "\",\"leaderEpoch\":" + record.leaderEpoch().orElse(-1)
                + ",\"key\":" + base64(record.key()) + ",\"value\":" + base64(record.value()) + ",\"headers\":[");
        String comma = "";
        for (Header header : record.headers()) {
            out.print(comma + "[" + base64(header.key().getBytes(StandardCharsets.UTF_8)) + "," + base64(header.value()) + "]");
            comma = ",";
        }
        out.print("]}\n");
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
    }
}
