import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import io.debezium.connector.postgresql.PostgresConnectorTask;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/**
 * Runs Debezium's task for PostgreSQL without a worker and converts its records to the bytes of topics. The first
 * line of the input has the task's properties as JSON; `records` is the number of records to read. Prints the
 * records, and the CPU seconds and seconds of the whole process from the first record to the last.
 */
public class DebeziumCapture {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> properties = new ObjectMapper().readValue(System.in, Map.class);
        long expected = Long.parseLong(properties.remove("records"));
        JsonConverter keys = new JsonConverter();
        JsonConverter values = new JsonConverter();
        String enabled = properties.remove("schemas.enable");
        keys.configure(Map.of("schemas.enable", enabled), true);
        values.configure(Map.of("schemas.enable", enabled), false);
        SimpleHeaderConverter headers = new SimpleHeaderConverter();
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        PostgresConnectorTask task = new PostgresConnectorTask();
        task.initialize(new Context(properties));
        task.start(properties);
        long count = 0;
        long bytes = 0;
        long cpu = system.getProcessCpuTime();
        long began = System.nanoTime();
        while (count < expected) {
            List<SourceRecord> records = task.poll();
            if (records == null) {
                continue;
            }
            if (count == 0) {
                cpu = system.getProcessCpuTime();
                began = System.nanoTime();
            }
            for (SourceRecord each : records) {
                for (Header header : each.headers()) {
                    bytes += headers.fromConnectHeader(each.topic(), header.key(), header.schema(), header.value()).length;
                }
                bytes += size(keys.fromConnectData(each.topic(), each.keySchema(), each.key()));
                bytes += size(values.fromConnectData(each.topic(), each.valueSchema(), each.value()));
            }
            count += records.size();
        }
        System.out.println(count + " " + (system.getProcessCpuTime() - cpu) / 1e9 + " " + (System.nanoTime() - began) / 1e9);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static int size(byte[] data) {
        return data == null ? 0 : data.length;
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
