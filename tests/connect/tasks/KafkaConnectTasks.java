// What Kafka Connect's own classes do with failing records, offsets, topics and groups: commands are lines of JSON
// on standard input, each with one line of JSON as its answer.
package org.apache.kafka.connect.runtime.errors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TopicCreationConfig;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.SinkUtils;
import org.apache.kafka.connect.util.TopicCreationGroup;

public final class KafkaConnectTasks {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ConnectorTaskId ID = new ConnectorTaskId("c", 0);

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (ConfigException | PatternSyntaxException e) {
                answer = Map.of("error", String.valueOf(e.getMessage()));
            }
            out.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.print(out);
        System.out.flush();
        System.exit(0);
    }

    private static Object answer(JsonNode command) throws Exception {
        JsonNode given = command.get(1);
        switch (command.get(0).asText()) {
            case "retry":
                return retry(given);
            case "letter":
                return letter(given);
            case "submitted":
                return submitted(given);
            case "creation":
                return creation(given);
            case "topics":
                SinkConnectorConfig.validate(texts(given));
                return "";
            case "ids":
                ConnectorTaskId id = new ConnectorTaskId(given.get(1).asText(), given.get(2).asInt());
                return List.of(
                        Worker.taskTransactionalId(given.get(0).asText(), id.connector(), id.task()),
                        SinkUtils.consumerGroupId(id.connector()),
                        id.toString());
            default:
                return assign(given);
        }
    }

    // A time that advances by the waits between attempts, and by what attempts take.
    private static final class Clock implements Time {
        long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class Latch extends CountDownLatch {
        private final Clock clock;
        final List<Long> waits = new ArrayList<>();

        Latch(Clock clock) {
            super(1);
            this.clock = clock;
        }

        @Override
        public boolean await(long timeout, TimeUnit unit) {
            waits.add(timeout);
            clock.now += timeout;
            return false;
        }
    }

    private static Object retry(JsonNode given) throws Exception {
        Clock clock = new Clock();
        Latch latch = new Latch(clock);
        ConnectMetrics metrics = metrics();
        ErrorHandlingMetrics counts = new ErrorHandlingMetrics(ID, metrics);
        RetryWithToleranceOperator<String> operator = new RetryWithToleranceOperator<>(
                given.get("timeout").asLong(),
                given.get("delay").asLong(),
                ToleranceType.valueOf(given.get("tolerance").asText().toUpperCase()),
                clock,
                counts,
                latch);
        List<Object> results = new ArrayList<>();
        for (JsonNode record : given.get("records")) {
            ProcessingContext<String> context = new ProcessingContext<>("r");
            for (JsonNode step : record) {
                List<JsonNode> left = new ArrayList<>();
                step.get("errors").forEach(left::add);
                Operation<String> operation = () -> {
                    clock.now += step.get("takes").asLong();
                    if (left.isEmpty())
                        return "done";
                    throw error(left.remove(0).asText(), "m");
                };
                Object result;
                try {
                    result = operator.execute(
                            context, operation, Stage.valueOf(step.get("stage").asText()), String.class);
                } catch (ConnectException e) {
                    result = List.of(e.getMessage(), e.getCause().getClass().getName());
                }
                List<Object> shown = new ArrayList<>();
                shown.add(result);
                shown.add(context.failed());
                shown.add(context.attempt());
                results.add(shown);
            }
        }
        Map<String, Long> totals = new TreeMap<>();
        metrics.metrics().metrics().forEach((name, metric) -> {
            if (name.group().equals("task-error-metrics") && name.name().startsWith("total-"))
                totals.put(name.name(), ((Double) metric.metricValue()).longValue());
        });
        boolean within = operator.withinToleranceLimits();
        metrics.stop();
        return List.of(results, latch.waits, totals, within);
    }

    private static ConnectMetrics metrics() {
        Map<String, String> props = new HashMap<>();
        props.put("bootstrap.servers", "localhost:1");
        props.put("key.converter", JsonConverter.class.getName());
        props.put("value.converter", JsonConverter.class.getName());
        props.put("offset.storage.file.filename", "/nowhere");
        props.put("auto.include.jmx.reporter", "false");
        props.put("metric.reporters", "");
        return new ConnectMetrics("w", new StandaloneConfig(props), Time.SYSTEM, "cluster");
    }

    private static Exception error(String kind, String message) {
        switch (kind) {
            case "retriable":
                return new RetriableException(message);
            case "data":
                return new DataException(message);
            case "config":
                return new ConfigException(message);
            case "connect":
                return new ConnectException(message);
            default:
                return new IllegalStateException(message);
        }
    }

    // The headers of a dead letter, and the message of the log.
    private static Object letter(JsonNode given) {
        ConnectorTaskId id = new ConnectorTaskId(given.get("connector").asText(), given.get("task").asInt());
        Map<String, String> props = new HashMap<>();
        props.put("name", "c");
        props.put("connector.class", "X");
        props.put("topics", "t");
        props.put("errors.deadletterqueue.topic.name", "dead");
        props.put("errors.log.enable", "true");
        props.put("errors.log.include.messages", given.get("include").asText());
        SinkConnectorConfig config = new SinkConnectorConfig(null, props);
        RecordHeaders headers = new RecordHeaders();
        headers.add("h", new byte[] {1});
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>(
                given.get("topic").asText(),
                given.get("partition").asInt(),
                given.get("offset").asLong(),
                given.get("timestamp").asLong(),
                TimestampType.forName(given.get("type").asText()),
                0,
                0,
                null,
                null,
                headers,
                Optional.empty());
        ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(record);
        context.currentContext(Stage.valueOf(given.get("stage").asText()), JsonConverter.class);
        JsonNode message = given.get("message");
        context.error(error(given.get("error").asText(), message.isNull() ? null : message.asText()));
        ErrorHandlingMetrics counts = new ErrorHandlingMetrics(id, METRICS);
        DeadLetterQueueReporter reporter = new DeadLetterQueueReporter(PRODUCER, config, id, counts);
        ProducerRecord<byte[], byte[]> letter =
                new ProducerRecord<>("dead", (Integer) null, (byte[]) null, (byte[]) null, record.headers());
        reporter.populateContextHeaders(letter, context);
        List<Object> found = new ArrayList<>();
        for (Header header : letter.headers()) {
            boolean trace = header.key().endsWith("stacktrace");
            String text = header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(trace ? "trace" : text);
            found.add(pair);
        }
        return List.of(found, new LogReporter.Sink(id, config, counts).message(context));
    }

    private static final ConnectMetrics METRICS = metrics();
    private static final KafkaProducer<byte[], byte[]> PRODUCER = new KafkaProducer<>(
            Map.of("bootstrap.servers", "localhost:1"), new ByteArraySerializer(), new ByteArraySerializer());

    private static Object submitted(JsonNode steps) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.connect.runtime.SubmittedRecords");
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object records = constructor.newInstance();
        Method submit = method(type, "submit", SourceRecord.class);
        Method committable = method(type, "committableOffsets");
        List<Object> all = new ArrayList<>();
        List<Object> found = new ArrayList<>();
        for (JsonNode step : steps) {
            switch (step.get(0).asText()) {
                case "submit":
                    Map<String, Object> partition = JSON.convertValue(step.get(1), Map.class);
                    Map<String, Object> offset = Map.of("n", step.get(2).asLong());
                    all.add(submit.invoke(records, new SourceRecord(partition, offset, "t", null, null)));
                    break;
                case "acknowledge":
                    Object acknowledged = all.get(step.get(1).asInt());
                    method(acknowledged.getClass(), "ack").invoke(acknowledged);
                    break;
                case "withdraw":
                    Object last = all.get(all.size() - 1);
                    method(last.getClass(), "drop").invoke(last);
                    break;
                default:
                    Object taken = committable.invoke(records);
                    Map<?, ?> offsets = (Map<?, ?>) method(taken.getClass(), "offsets").invoke(taken);
                    List<Object> pairs = new ArrayList<>();
                    for (Map.Entry<?, ?> each : offsets.entrySet())
                        pairs.add(List.of(each.getKey(), ((Map<?, ?>) each.getValue()).get("n")));
                    found.add(pairs);
            }
        }
        return found;
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters) throws Exception {
        Method found = type.getDeclaredMethod(name, parameters);
        found.setAccessible(true);
        return found;
    }

    private static Object creation(JsonNode given) {
        Map<String, String> props = new LinkedHashMap<>(Map.of("name", "c", "connector.class", "X"));
        props.putAll(texts(given.get("config")));
        SourceConnectorConfig config = new SourceConnectorConfig(null, props, true);
        if (!config.usesTopicCreation())
            return List.of();
        Map<String, TopicCreationGroup> groups = TopicCreationGroup.configuredGroups(config);
        TopicCreationGroup last = groups.remove(TopicCreationConfig.DEFAULT_TOPIC_CREATION_GROUP);
        List<Object> found = new ArrayList<>();
        for (JsonNode topic : given.get("topics")) {
            TopicCreationGroup group = groups.values().stream()
                    .filter(each -> each.matches(topic.asText()))
                    .findFirst()
                    .orElse(last);
            NewTopic made = group.newTopic(topic.asText());
            found.add(List.of(
                    made.numPartitions(), made.replicationFactor(), new TreeMap<>(made.configs())));
        }
        return found;
    }

    private static Object assign(JsonNode given) {
        Map<String, Integer> partitions = new HashMap<>();
        given.get("partitions").fields().forEachRemaining(e -> partitions.put(e.getKey(), e.getValue().asInt()));
        Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new HashMap<>();
        List<Object> bytes = new ArrayList<>();
        given.get("members").fields().forEachRemaining(e -> {
            List<String> topics = new ArrayList<>();
            e.getValue().forEach(topic -> topics.add(topic.asText()));
            ConsumerPartitionAssignor.Subscription subscription =
                    new ConsumerPartitionAssignor.Subscription(topics);
            subscriptions.put(e.getKey(), subscription);
            bytes.add(hex(ConsumerProtocol.serializeSubscription(subscription)));
        });
        Map<String, Object> assigned = new TreeMap<>();
        new RangeAssignor().assign(partitions, subscriptions).forEach((member, found) -> {
            List<Object> shown = new ArrayList<>();
            for (TopicPartition each : found)
                shown.add(List.of(each.topic(), each.partition()));
            String encoded =
                    hex(ConsumerProtocol.serializeAssignment(new ConsumerPartitionAssignor.Assignment(found)));
            assigned.put(member, List.of(shown, encoded));
        });
        return List.of(assigned, bytes);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        node.fields().forEachRemaining(e -> found.put(e.getKey(), e.getValue().asText()));
        return found;
    }
}
