import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Scanner;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client's part of a load, and what it was told: a writer, a reader, and a transformer, which moves one
 * partition of `in` to `out` in transactions. tests/model/client_histories.py has the same three for librdkafka.
 *
 * LoadClients BOOTSTRAP SEED WRITER READER TRANSFORMER PARTITION: the process numbers in the history, and the
 * partition to move. Each operation is a line, with tabs between its words: process, outcome, whether it is a
 * transaction, then sends (S topic partition offset value; no offset is -1) and polls (P topic partition sought,
 * then offset=value after each other). A line of input ends the writer; the end of the input ends the others once
 * all is moved.
 */
public class LoadClients {
    static final String INPUT = "in";
    static final String OUTPUT = "out";
    static final int PARTITIONS = 2;
    static final double ABORTS = 0.15;
    static final Duration POLL = Duration.ofMillis(100);
    static final long DRAIN_MS = 60_000;

    static String bootstrap;
    static volatile boolean writing = true;
    static volatile boolean running = true;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        long seed = Long.parseLong(words[1]);
        Worker writer = new Writer(Integer.parseInt(words[2]), seed);
        Worker reader = new Reader(Integer.parseInt(words[3]), seed);
        Worker transformer = new Transformer(Integer.parseInt(words[4]), seed, Integer.parseInt(words[5]));
        List<Worker> workers = List.of(writer, reader, transformer);
        workers.forEach(Thread::start);
        Scanner commands = new Scanner(System.in);
        if (commands.hasNextLine()) {
            commands.nextLine();
        }
        writing = false;
        writer.join();
        System.out.println("written");
        while (commands.hasNextLine()) {
            commands.nextLine();
        }
        running = false;
        for (Worker worker : workers) {
            worker.join();
        }
        System.exit(workers.stream().anyMatch(worker -> worker.failed) ? 1 : 0);
    }

    abstract static class Worker extends Thread {
        final int process;
        final Random dice;
        boolean failed;

        Worker(int process, long seed) {
            this.process = process;
            dice = new Random(seed + process);
        }

        abstract void work() throws Exception;

        @Override
        public void run() {
            try {
                work();
            } catch (Exception failure) {
                failed = true;
                System.err.println(getClass().getSimpleName() + " " + process);
                failure.printStackTrace();
            }
        }

        void report(String outcome, boolean transactional, List<String> steps) {
            String line = process + "\t" + outcome + "\t" + transactional + "\t" + String.join("\t", steps);
            synchronized (System.out) {
                System.out.println(line);
            }
        }
    }

    /** A record on its way. */
    record Sent(int partition, String value, Future<RecordMetadata> answer) {
        /** -1 where it is not known, or there is none. */
        long offset() {
            try {
                return answer.isDone() ? answer.get().offset() : -1;
            } catch (Exception refused) {
                return -1;
            }
        }

        String step(String topic) {
            return "S\t" + topic + "\t" + partition + "\t" + offset() + "\t" + value;
        }
    }

    static Sent send(KafkaProducer<String, String> producer, String topic, String value, Random dice) {
        int partition = dice.nextInt(PARTITIONS);
        return new Sent(partition, value, producer.send(new ProducerRecord<>(topic, partition, null, value)));
    }

    static class Writer extends Worker {
        Writer(int process, long seed) {
            super(process, seed);
        }

        @Override
        void work() throws Exception {
            long number = 0;
            try (KafkaProducer<String, String> producer = producer(Map.of())) {
                while (writing) {
                    List<Sent> sent = new ArrayList<>();
                    for (int left = 1 + dice.nextInt(5); left > 0; left--) {
                        sent.add(send(producer, INPUT, process + "." + number++, dice));
                    }
                    producer.flush();
                    List<String> steps = sent.stream().map(one -> one.step(INPUT)).toList();
                    boolean refused = sent.stream().anyMatch(one -> one.offset() < 0);
                    report(refused ? "unknown" : "ok", false, steps);
                    sleep(dice.nextInt(10));
                }
            }
        }
    }

    static class Reader extends Worker {
        Reader(int process, long seed) {
            super(process, seed);
        }

        @Override
        void work() {
            try (KafkaConsumer<String, String> consumer = consumer("java-reader")) {
                List<TopicPartition> all = new ArrayList<>();
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    all.add(new TopicPartition(INPUT, partition));
                    all.add(new TopicPartition(OUTPUT, partition));
                }
                consumer.assign(all);
                consumer.seekToBeginning(all);
                while (running) {
                    ConsumerRecords<String, String> polled = consumer.poll(POLL);
                    if (!polled.isEmpty()) {
                        report("ok", false, steps(polled, false));
                    }
                }
            }
        }
    }

    static class Transformer extends Worker {
        final TopicPartition input;
        KafkaProducer<String, String> producer;
        KafkaConsumer<String, String> consumer;
        boolean sought;
        long attempt;

        Transformer(int process, long seed, int partition) {
            super(process, seed);
            input = new TopicPartition(INPUT, partition);
        }

        @Override
        void work() {
            open();
            while (running) {
                step();
            }
            long deadline = System.currentTimeMillis() + DRAIN_MS;
            for (int idle = 0; idle < 5; idle = step() ? 0 : idle + 1) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("it never came to the end");
                }
            }
            close();
        }

        /** A new instance, which fences what the last one left and goes on where the group is. */
        void open() {
            producer = producer(Map.of("transactional.id", "transformer-" + input.partition()));
            producer.initTransactions();
            consumer = consumer("transformers");
            consumer.assign(Set.of(input));
            rewind();
        }

        void close() {
            consumer.close();
            producer.close(Duration.ofSeconds(5));
        }

        void rewind() {
            OffsetAndMetadata committed = consumer.committed(Set.of(input)).get(input);
            consumer.seek(input, committed == null ? 0 : committed.offset());
            sought = true;
        }

        /** Whether there was something to move. */
        boolean step() {
            ConsumerRecords<String, String> polled = consumer.poll(POLL);
            if (polled.isEmpty()) {
                return false;
            }
            List<String> steps = steps(polled, sought);
            sought = false;
            List<Sent> sent = new ArrayList<>();
            String outcome = transact(polled, sent);
            sent.forEach(one -> steps.add(one.step(OUTPUT)));
            report(outcome, true, steps);
            if (!outcome.equals("ok")) {
                rewind();
            }
            return true;
        }

        String transact(ConsumerRecords<String, String> polled, List<Sent> sent) {
            boolean askedToCommit = false;
            try {
                producer.beginTransaction();
                attempt++;
                for (ConsumerRecord<String, String> record : polled) {
                    String value = record.value() + "/" + process + "." + attempt;
                    sent.add(send(producer, OUTPUT, value, dice));
                }
                if (dice.nextDouble() < ABORTS) {
                    producer.abortTransaction();
                    return "failed";
                }
                OffsetAndMetadata position = new OffsetAndMetadata(consumer.position(input));
                producer.sendOffsetsToTransaction(Map.of(input, position), consumer.groupMetadata());
                producer.flush();
                askedToCommit = true;
                producer.commitTransaction();
                return "ok";
            } catch (KafkaException refused) {
                System.err.println("Transformer " + process + " starts over: " + refused);
                close();
                open();
                return askedToCommit ? "unknown" : "failed";
            }
        }
    }

    /** The records of each partition as one poll. */
    static List<String> steps(ConsumerRecords<String, String> polled, boolean sought) {
        List<String> steps = new ArrayList<>();
        for (TopicPartition partition : polled.partitions()) {
            StringJoiner records = new StringJoiner(" ");
            polled.records(partition).forEach(record -> records.add(record.offset() + "=" + record.value()));
            steps.add("P\t" + partition.topic() + "\t" + partition.partition() + "\t" + sought + "\t" + records);
        }
        return steps;
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> config = config();
        config.putAll(Map.of("enable.idempotence", true, "linger.ms", 1, "delivery.timeout.ms", 60_000));
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> config = config();
        config.putAll(Map.of("group.id", group, "enable.auto.commit", false));
        config.putAll(Map.of("isolation.level", "read_committed", "auto.offset.reset", "none"));
        config.putAll(Map.of("max.poll.records", 20, "fetch.max.wait.ms", 50));
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static Map<String, Object> config() {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        config.putAll(Map.of("reconnect.backoff.ms", 20, "reconnect.backoff.max.ms", 100));
        config.putAll(Map.of("request.timeout.ms", 10_000, "default.api.timeout.ms", 60_000));
        return config;
    }
}
