import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client with its default settings: RoundTrip BOOTSTRAP TOPIC COUNT COMPRESSION... */
public class RoundTrip {
    static final int PARTITIONS = 3;

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        for (int at = 3; at < words.length; at++) roundTrip(words[0], words[1] + "-" + words[at], count, words[at]);
    }

    static void roundTrip(String bootstrap, String topic, int count, String compression) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
            produce(bootstrap, topic, count, compression);
            consume(bootstrap, topic, count);
            long total = 0;
            for (int p = 0; p < PARTITIONS; p++) {
                TopicPartition partition = new TopicPartition(topic, p);
                ListOffsetsResultInfo end = admin.listOffsets(Map.of(partition, OffsetSpec.latest()))
                        .partitionResult(partition).get();
                total += end.offset();
            }
            check(total == count, "the end offsets add up to " + total);
            check(admin.listConsumerGroupOffsets("java-" + topic).partitionsToOffsetAndMetadata().get().size()
                    == PARTITIONS, "offsets committed for each partition");
            check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size()
                    == PARTITIONS, "partitions described");
            admin.deleteTopics(List.of(topic)).all().get();
        }
        System.out.println("round trip of " + count + " records, " + compression);
    }

    static void produce(String bootstrap, String topic, int count, String compression) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", compression);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, "key-" + n, "value-" + n);
                record.headers().add("n", Integer.toString(n).getBytes());
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : sent) check(future.get().hasOffset(), "an offset for each record");
        }
    }

    static void consume(String bootstrap, String topic, int count) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "java-" + topic);
        settings.put("auto.offset.reset", "earliest");
        Set<String> keys = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.currentTimeMillis() + 60_000;
            while (keys.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    String n = new String(record.headers().lastHeader("n").value());
                    check(record.key().equals("key-" + n) && record.value().equals("value-" + n), "record " + n);
                    check(keys.add(record.key()), "no record twice: " + record.key());
                }
            }
            consumer.commitSync();
        }
        check(keys.size() == count, keys.size() + " of " + count + " records consumed");
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }
}
