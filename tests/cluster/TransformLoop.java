import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce with the Java client, until killed: BOOTSTRAP NAME SOURCE SINK GROUP.
 * NAME is the transactional id. Ends by itself where its producer can't go on; whoever has started it starts another.
 */
public class TransformLoop {
    static final double ABORTED_BY_CHOICE = 0.1;

    public static void main(String[] words) {
        String source = words[2], sink = words[3];
        Random random = new Random();
        try (KafkaProducer<String, String> producer = producer(words[0], words[1]);
                KafkaConsumer<String, String> consumer = consumer(words[0], words[4])) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                try {
                    for (ConsumerRecord<String, String> record : records) {
                        producer.send(new ProducerRecord<>(sink, record.key(), record.value()));
                    }
                    if (random.nextDouble() < ABORTED_BY_CHOICE) {
                        producer.flush();
                        producer.abortTransaction();
                        rewind(consumer);
                        continue;
                    }
                    producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException error) {
                    producer.abortTransaction(); // throws where only another producer can go on
                    rewind(consumer);
                }
            }
        }
    }

    /** Back to what is committed. */
    static void rewind(KafkaConsumer<String, String> consumer) {
        Set<TopicPartition> assigned = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(assigned);
        for (TopicPartition partition : assigned) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }

    static KafkaProducer<String, String> producer(String bootstrap, String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", "10000");
        settings.put("reconnect.backoff.max.ms", "200");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "2000");
        settings.put("heartbeat.interval.ms", "300");
        settings.put("max.poll.records", "50");
        settings.put("reconnect.backoff.max.ms", "200");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
