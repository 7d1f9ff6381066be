// Kafka Connect's own validation of connectors, with plugins of a test beside those of Kafka.
package org.apache.kafka.connect.runtime;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Width;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedHerder;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.runtime.rest.resources.ConnectorPluginsResource;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.runtime.standalone.StandaloneHerder;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.apache.kafka.connect.util.FutureCallback;
import org.apache.kafka.connect.util.TemporaryStage;

/**
 * Arguments: a file with the configurations of workers, one in each line, and a file with questions: the number of a
 * worker, and the configuration of a connector or the name of a plugin. The first line of the answers lists the
 * plugins. The others have the result of validation, or the keys of the plugin, or an error.
 */
public final class ConnectValidation {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ConnectValidation() {
    }

    public static void main(String[] arguments) throws Exception {
        Plugins plugins = new Plugins(Map.of("plugin.discovery", "service_load"));
        plugins.compareAndSwapWithDelegatingLoader();
        List<AbstractHerder> herders = new java.util.ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            herders.add(herder(plugins, properties(JSON.readTree(line))));
        PrintStream answers = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, StandardCharsets.UTF_8);
        JSON.addMixIn(ConfigKeyInfo.class, WithoutDocumentation.class);
        ConnectorPluginsResource resource = new ConnectorPluginsResource(herders.get(0), null);
        answers.append(JSON.writeValueAsString(resource.listConnectorPlugins(false))).append('\n');
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            JsonNode question = JSON.readTree(line);
            answers.append(JSON.writeValueAsString(answer(herders.get(question.get(0).asInt()), question.get(1))))
                .append('\n');
        }
        answers.flush();
    }

    @JsonIgnoreProperties("documentation")
    private interface WithoutDocumentation {
    }

    static Object answer(AbstractHerder herder, JsonNode question) {
        FutureCallback<Void> callback = new FutureCallback<>();
        Function<String, TemporaryStage> stages = stage -> new TemporaryStage(stage, callback, Time.SYSTEM);
        try {
            // a worker remembers a failure for all versions of the connector
            set(herder, AbstractHerder.class, "cachedConnectors", new CachedConnectors(herder.plugins()));
            if (question.isTextual())
                return herder.connectorPluginConfig(question.asText());
            return herder.validateConnectorConfig(properties(question), stages, false);
        } catch (Throwable refused) {
            return Map.of("error", refused.getClass().getSimpleName(), "message", String.valueOf(refused.getMessage()));
        }
    }

    static Map<String, String> properties(JsonNode given) {
        Map<String, String> properties = new LinkedHashMap<>();
        given.properties().forEach(each -> properties.put(each.getKey(),
            each.getValue().isNull() ? null : each.getValue().asText()));
        return properties;
    }

    static AbstractHerder herder(Plugins plugins, Map<String, String> properties) throws Exception {
        boolean isDistributed = properties.containsKey("group.id");
        WorkerConfig config = isDistributed ? new DistributedConfig(properties) : new StandaloneConfig(properties);
        Worker worker = (Worker) allocated(Worker.class);
        set(worker, Worker.class, "plugins", plugins);
        set(worker, Worker.class, "config", config);
        ConnectorClientConfigOverridePolicy policy = plugins.newPlugin(
            config.getString(WorkerConfig.CONNECTOR_CLIENT_POLICY_CLASS_CONFIG), config,
            ConnectorClientConfigOverridePolicy.class);
        Class<?> kind = isDistributed ? DistributedHerder.class : StandaloneHerder.class;
        AbstractHerder herder = (AbstractHerder) allocated(kind);
        set(herder, AbstractHerder.class, "worker", worker);
        set(herder, AbstractHerder.class, "connectorClientConfigOverridePolicyPlugin",
            Plugin.wrapInstance(policy, null, "policy"));
        if (isDistributed) {
            set(herder, DistributedHerder.class, "config", config);
            set(herder, DistributedHerder.class, "workerGroupId", properties.get("group.id"));
        }
        return herder;
    }

    /** An object without its constructor, which would connect to a cluster. */
    static Object allocated(Class<?> kind) throws Exception {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(kind);
    }

    static void set(Object object, Class<?> kind, String name, Object value) throws Exception {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    public static class OracleSource extends SourceConnector {
        static final ConfigDef DEFINITION = new ConfigDef()
            .define("topic", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, new ConfigDef.NonEmptyString(), Importance.HIGH,
                "Topic.", "Oracle", 1, Width.LONG, "Topic", List.of("mode"))
            .define("mode", Type.STRING, "a", ConfigDef.ValidString.in("a", "b", "c", "d"), Importance.LOW, "Mode.",
                "Oracle", 2, Width.SHORT, "Mode", new Modes())
            .define("secret", Type.PASSWORD, null, Importance.MEDIUM, "Secret.")
            .define("batch.size", Type.INT, 2000, ConfigDef.Range.between(1, 5000), Importance.LOW, "Size.")
            .define("errors.tolerance", Type.STRING, "some", Importance.LOW, "Hides a key of every connector.")
            .define("ratio", Type.DOUBLE, 0.5, Importance.LOW, "Ratio.", "Other", 1, Width.NONE, "Ratio")
            .define("names", Type.LIST, "x,y", ConfigDef.ValidList.anyNonDuplicateValues(true, false), Importance.LOW,
                "Names.");

        @Override
        public String version() {
            return "1.2.0";
        }

        @Override
        public void start(Map<String, String> properties) {
        }

        @Override
        public Class<? extends Task> taskClass() {
            return null;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of();
        }

        @Override
        public void stop() {
        }

        @Override
        public ConfigDef config() {
            return DEFINITION;
        }

        @Override
        public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> properties) {
            switch (properties.getOrDefault("mode", "a")) {
                case "b": return ExactlyOnceSupport.SUPPORTED;
                case "c": return ExactlyOnceSupport.UNSUPPORTED;
                case "d": throw new IllegalStateException("no idea");
                default: return null;
            }
        }

        @Override
        public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> properties) {
            return "b".equals(properties.get("mode")) ? ConnectorTransactionBoundaries.SUPPORTED
                : ConnectorTransactionBoundaries.UNSUPPORTED;
        }
    }

    static class Modes implements ConfigDef.Recommender {
        @Override
        public List<Object> validValues(String name, Map<String, Object> parsed) {
            return List.of("a", String.valueOf(parsed.get("topic")));
        }

        @Override
        public boolean visible(String name, Map<String, Object> parsed) {
            return !"hidden".equals(parsed.get("topic"));
        }
    }

    public static class OracleTransform implements Transformation<org.apache.kafka.connect.source.SourceRecord> {
        @Override
        public org.apache.kafka.connect.source.SourceRecord apply(org.apache.kafka.connect.source.SourceRecord record) {
            return record;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                .define("field", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, new ConfigDef.NonEmptyString(),
                    Importance.HIGH, "Field.")
                .define("negate", Type.STRING, "hidden", Importance.LOW, "Hidden by that of every transform.")
                .define("count", Type.INT, 3, ConfigDef.Range.atLeast(1), Importance.LOW, "Count.", "Counts", 1,
                    Width.SHORT, "Count");
        }

        @Override
        public String version() {
            return "2.0";
        }

        @Override
        public void configure(Map<String, ?> properties) {
        }

        @Override
        public void close() {
        }
    }

    public static class OraclePredicate implements Predicate<org.apache.kafka.connect.source.SourceRecord> {
        @Override
        public boolean test(org.apache.kafka.connect.source.SourceRecord record) {
            return true;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("pattern", Type.STRING, ".*", Importance.MEDIUM, "Pattern.");
        }

        @Override
        public void configure(Map<String, ?> properties) {
        }

        @Override
        public void close() {
        }
    }

    public static class OracleConverter implements Converter {
        @Override
        public ConfigDef config() {
            return new ConfigDef()
                .define("converter.type", Type.STRING, ConfigDef.NO_DEFAULT_VALUE,
                    ConfigDef.ValidString.in("key", "value"), Importance.LOW, "Type.", "Oracle", 1, Width.SHORT, "Type")
                .define("schemas.enable", Type.BOOLEAN, true, Importance.HIGH, "Schemas.", "Schemas", 0, Width.MEDIUM,
                    "Enable schemas")
                .define("size", Type.INT, 1000, ConfigDef.Range.atLeast(0), Importance.LOW, "Size.");
        }

        @Override
        public void configure(Map<String, ?> properties, boolean isKey) {
        }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return null;
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] data) {
            return null;
        }
    }

    public static class FailingConverter extends OracleConverter {
        public FailingConverter() {
            throw new ConfigException("never made");
        }
    }
}
