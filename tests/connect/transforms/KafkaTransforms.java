package org.apache.kafka.connect.data;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Kafka Connect's transforms, predicates and chains. Arguments: a file with a question a line, as JSON, and a file for
 * the answers. Schemas and values are in the notation of KafkaConverters.
 */
public class KafkaTransforms {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static Plugins plugins;
    private static ConnectMetrics metrics;

    public static void main(String[] arguments) throws Exception {
        try (BufferedWriter answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
            for (String line : Files.readAllLines(Path.of(arguments[0])))
                answers.append(JSON.writeValueAsString(attempt(JSON.readTree(line)))).append('\n');
        }
    }

    interface Answer {
        Object get() throws Exception;
    }

    static Object attempted(Answer answer) {
        try {
            return answer.get();
        } catch (Exception | StackOverflowError failed) {
            Throwable cause = failed;
            while (cause.getClass().getName().equals("org.apache.kafka.connect.errors.ConnectException")
                    && cause.getCause() != null)
                cause = cause.getCause();
            return Map.of("error", cause.getClass().getSimpleName(), "message", String.valueOf(cause.getMessage()));
        }
    }

    static Object attempt(JsonNode question) {
        return attempted(() -> KafkaTransforms.<SinkRecord>answer(question));
    }

    static <R extends ConnectRecord<R>> Object answer(JsonNode question) throws Exception {
        switch (question.get("op").asText()) {
            case "transform": {
                Transformation<R> transform =
                    (Transformation<R>) instance(question.get("type").asText());
                transform.configure(config(question.get("config")));
                return KafkaTransforms.<R>each(question, record -> shown(transform.apply(record)));
            }
            case "chain": {
                List<TransformationStage<R>> stages = stages(config(question.get("config")));
                return KafkaTransforms.<R>each(question, record -> {
                    R changed = record;
                    for (TransformationStage<R> stage : stages)
                        changed = changed == null ? null : stage.apply(changed);
                    return shown(changed);
                });
            }
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    interface ForRecord<R> {
        Object of(R record) throws Exception;
    }

    static <R extends ConnectRecord<R>> List<Object> each(JsonNode question, ForRecord<R> answer) {
        List<Object> answers = new ArrayList<>();
        question.get("records").forEach(each -> answers.add(attempted(() -> answer.of((R) record(each)))));
        return answers;
    }

    static Object instance(String type) throws Exception {
        return Class.forName(type).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> config(JsonNode given) {
        Map<String, String> config = new LinkedHashMap<>();
        given.properties().forEach(each -> config.put(each.getKey(), each.getValue().textValue()));
        return config;
    }

    static <R extends ConnectRecord<R>> List<TransformationStage<R>> stages(Map<String, String> config) {
        if (plugins == null) {
            plugins = new Plugins(Map.of("plugin.discovery", "service_load"));
            Map<String, String> worker = Map.of("bootstrap.servers", "127.0.0.1:1", "offset.storage.file.filename", "none",
                "key.converter", "org.apache.kafka.connect.json.JsonConverter",
                "value.converter", "org.apache.kafka.connect.json.JsonConverter");
            metrics = new ConnectMetrics("worker", new StandaloneConfig(worker), Time.SYSTEM, "cluster");
        }
        ConnectorConfig parsed = new ConnectorConfig(plugins, config);
        return parsed.transformationStages(plugins, new ConnectorTaskId("connector", 0), metrics);
    }

    static ConnectRecord<?> record(JsonNode given) {
        Integer partition = given.get("partition").isNull() ? null : given.get("partition").intValue();
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").longValue();
        Schema keySchema = KafkaConverters.schema(given.get("key_schema"));
        Schema valueSchema = KafkaConverters.schema(given.get("value_schema"));
        Object key = KafkaConverters.value(given.get("key"));
        Object value = KafkaConverters.value(given.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        given.get("headers").forEach(each -> headers.add(each.get(0).textValue(), KafkaConverters.value(each.get(2)),
            KafkaConverters.schema(each.get(1))));
        String topic = given.get("topic").textValue();
        if (given.get("sink").asBoolean())
            return new SinkRecord(topic, partition, keySchema, key, valueSchema, value, given.get("offset").longValue(),
                timestamp, TimestampType.CREATE_TIME, headers);
        return new SourceRecord(Map.of("file", "a"), Map.of("position", 1L), topic, partition, keySchema, key, valueSchema,
            value, timestamp, headers);
    }

    static Object shown(ConnectRecord<?> record) {
        if (record == null)
            return null;
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("sink", record instanceof SinkRecord);
        shown.put("topic", record.topic());
        shown.put("partition", record.kafkaPartition());
        shown.put("timestamp", record.timestamp());
        shown.put("key_schema", KafkaConverters.shown(record.keySchema()));
        shown.put("key", KafkaConverters.shown(record.key()));
        shown.put("value_schema", KafkaConverters.shown(record.valueSchema()));
        shown.put("value", KafkaConverters.shown(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> parts = new ArrayList<>();
            parts.add(header.key());
            parts.add(KafkaConverters.shown(header.schema()));
            parts.add(KafkaConverters.shown(header.value()));
            headers.add(parts);
        }
        shown.put("headers", headers);
        return shown;
    }
}
