import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * Runs a task of one of Debezium's connectors without a worker, and prints each of its records as a line of
 * JSON. The first line of the input holds the task's properties as JSON. The task stops when the input ends.
 */
public class DebeziumRecords {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream lines = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        java.io.BufferedReader input = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, "UTF-8"));
        Map<String, String> properties = JSON.readValue(input.readLine(), Map.class);
        SourceTask task = (SourceTask) Class.forName(properties.get("connector.class") + "Task").getConstructor().newInstance();
        task.initialize(new Context(properties));
        task.start(properties);
        Thread polling = new Thread(() -> poll(task, lines));
        polling.start();
        while (input.readLine() != null) {
        }
        task.stop();
        polling.join();
    }

    private static void poll(SourceTask task, PrintStream lines) {
        try {
            for (List<SourceRecord> records = task.poll(); records != null; records = task.poll()) {
                for (SourceRecord record : records) {
                    lines.println(JSON.writeValueAsString(written(record)));
                }
            }
        } catch (Exception stopped) {
            stopped.printStackTrace();
        }
        lines.println("{\"end\":true}");
    }

    private static Map<String, Object> written(SourceRecord record) {
        Map<String, Object> made = new LinkedHashMap<>();
        made.put("topic", record.topic());
        made.put("partition", record.sourcePartition());
        made.put("offset", record.sourceOffset());
        made.put("key_schema", schema(record.keySchema()));
        made.put("key", value(record.key()));
        made.put("value_schema", schema(record.valueSchema()));
        made.put("value", value(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header each : record.headers()) {
            headers.add(List.of(each.key(), List.of(optional(schema(each.schema())), optional(value(each.value())))));
        }
        made.put("headers", headers);
        return made;
    }

    private static Object optional(Object value) {
        return value == null ? "" : value;
    }

    private static Object schema(Schema schema) {
        if (schema == null) {
            return null;
        }
        Map<String, Object> made = new LinkedHashMap<>();
        made.put("type", schema.type().name());
        if (schema.isOptional()) {
            made.put("optional", true);
        }
        if (schema.name() != null) {
            made.put("name", schema.name());
        }
        if (schema.version() != null) {
            made.put("version", schema.version());
        }
        if (schema.doc() != null) {
            made.put("doc", schema.doc());
        }
        if (schema.defaultValue() != null) {
            made.put("default", value(schema.defaultValue()));
        }
        if (schema.parameters() != null && !schema.parameters().isEmpty()) {
            made.put("parameters", schema.parameters());
        }
        if (schema.type() == Schema.Type.STRUCT) {
            List<Object> fields = new ArrayList<>();
            for (Field each : schema.fields()) {
                fields.add(List.of(each.name(), schema(each.schema())));
            }
            made.put("fields", fields);
        }
        if (schema.type() == Schema.Type.MAP) {
            made.put("keys", schema(schema.keySchema()));
        }
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) {
            made.put("values", schema(schema.valueSchema()));
        }
        return made;
    }

    private static Object value(Object value) {
        if (value instanceof Struct struct) {
            Map<String, Object> made = new LinkedHashMap<>();
            for (Field each : struct.schema().fields()) {
                made.put(each.name(), value(struct.getWithoutDefault(each.name())));
            }
            return made;
        }
        if (value instanceof List<?> list) {
            List<Object> made = new ArrayList<>();
            list.forEach(each -> made.add(value(each)));
            return made;
        }
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> made = new LinkedHashMap<>();
            map.forEach((key, each) -> made.put(key, value(each)));
            return made;
        }
        if (value instanceof byte[] bytes) {
            return "bytes " + java.util.HexFormat.of().formatHex(bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return "bytes " + java.util.HexFormat.of().formatHex(bytes);
        }
        if (value instanceof BigDecimal decimal) {
            return "decimal " + decimal.unscaledValue() + " scale " + decimal.scale();
        }
        if (value instanceof java.util.Date date) {
            return "date " + date.getTime();
        }
        if (value instanceof Float || value instanceof Double) {
            return ((Number) value).doubleValue();
        }
        return value;
    }

    /** The part of a worker that the task asks for: no offsets are stored. */
    private record Context(Map<String, String> configs) implements SourceTaskContext {
        @Override
        public OffsetStorageReader offsetStorageReader() {
            return new OffsetStorageReader() {
                @Override
                public <T> Map<String, Object> offset(Map<String, T> partition) {
                    return null;
                }

                @Override
                public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
                    return new HashMap<>();
                }
            };
        }

        @Override
        public org.apache.kafka.common.metrics.PluginMetrics pluginMetrics() {
            return null;
        }
    }
}
