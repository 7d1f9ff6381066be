import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of the Java client and what its admin client tells of them: Transactions BOOTSTRAP TOPIC. */
public class Transactions {
    static final int COUNT = 20;
    static final long SOURCE_OFFSET = 7;

    static String bootstrap, topic;
    static TopicPartition partition;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        topic = words[1];
        partition = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaConsumer<String, String> group = consumer(topic);
                KafkaProducer<String, String> producer = producer()) {
            producer.initTransactions();
            write(producer, "committed");
            describe(admin);
            producer.commitTransaction();
            write(producer, "aborted");
            producer.abortTransaction();
            write(producer, "committed");
            producer.sendOffsetsToTransaction(
                    Map.of(partition, new OffsetAndMetadata(SOURCE_OFFSET)), group.groupMetadata());
            producer.commitTransaction();
            check(read().size() == 2 * COUNT, "what was committed is read");
            isFenced(admin, producer);
        }
        System.out.println("all as expected");
    }

    static void write(KafkaProducer<String, String> producer, String word) throws Exception {
        producer.beginTransaction();
        for (int n = 0; n < COUNT; n++) {
            producer.send(new ProducerRecord<>(topic, word + " " + n)).get();
        }
    }

    static void describe(Admin admin) throws Exception {
        TransactionDescription open = admin.describeTransactions(List.of(topic)).description(topic).get();
        check(open.state() == TransactionState.ONGOING, "a transaction is open: " + open);
        check(open.topicPartitions().contains(partition), "the partition was added: " + open);
        check(admin.listTransactions().all().get().stream().anyMatch(one -> one.transactionalId().equals(topic)),
                "it is listed");
        List<ProducerState> producers =
                admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        check(producers.size() == 1, "one producer: " + producers);
        ProducerState state = producers.get(0);
        check(state.producerId() == open.producerId() && state.producerEpoch() == open.producerEpoch()
                && state.lastSequence() == COUNT - 1 && state.currentTransactionStartOffset().getAsLong() == 0,
                "its state: " + state);
    }

    static void isFenced(Admin admin, KafkaProducer<String, String> producer) throws Exception {
        producer.beginTransaction();
        admin.fenceProducers(List.of(topic)).all().get();
        try {
            producer.send(new ProducerRecord<>(topic, "zombie")).get();
            producer.commitTransaction();
        } catch (ExecutionException | KafkaException error) {
            try {
                producer.abortTransaction();
            } catch (ProducerFencedException expected) {
                return;
            }
        }
        throw new AssertionError("a fenced producer goes on");
    }

    static List<String> read() {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(null)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(10))) {
                    found.add(record.value());
                }
            }
        }
        return found;
    }

    static KafkaProducer<String, String> producer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", topic);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        if (group != null) {
            settings.put("group.id", group);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
