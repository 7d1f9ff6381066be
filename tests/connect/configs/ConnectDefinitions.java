import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TopicCreationConfig;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.TopicCreationGroup;

/**
 * Prints the keys of all definitions of Kafka Connect and of its clients, as JSON. With an argument, a file that has
 * the name of a definition and a configuration in each line, it prints the errors of each configuration instead; with
 * the name "groups", the groups of topics that the configuration of a source has, and which of some topics they have.
 */
public class ConnectDefinitions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Plugins PLUGINS = new Plugins(Map.of("plugin.discovery", "service_load"));

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> definitions = new LinkedHashMap<>();
        Method distributed = DistributedConfig.class.getDeclaredMethod("config", Crypto.class);
        distributed.setAccessible(true);
        definitions.put("distributed", (ConfigDef) distributed.invoke(null, Crypto.SYSTEM));
        Field standalone = StandaloneConfig.class.getDeclaredField("CONFIG");
        standalone.setAccessible(true);
        definitions.put("standalone", (ConfigDef) standalone.get(null));
        definitions.put("connector", ConnectorConfig.configDef());
        definitions.put("source", SourceConnectorConfig.configDef());
        definitions.put("sink", SinkConnectorConfig.configDef());
        definitions.put("topic_creation", TopicCreationConfig.configDef("mine", (short) 2, 7));
        definitions.put("topic_creation_default", TopicCreationConfig.defaultGroupConfigDef());
        definitions.put("producer", ProducerConfig.configDef());
        definitions.put("consumer", ConsumerConfig.configDef());
        definitions.put("admin", AdminClientConfig.configDef());
        if (arguments.length > 0) {
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                JsonNode question = JSON.readTree(line);
                boolean isOfGroups = question.get(0).asText().equals("groups");
                System.out.println(JSON.writeValueAsString(
                    isOfGroups ? groups(question) : errors(definitions, question)));
            }
            return;
        }
        Map<String, List<Map<String, Object>>> shown = new LinkedHashMap<>();
        definitions.forEach((name, definition) -> {
            List<Map<String, Object>> keys = new ArrayList<>();
            definition.configKeys().values().forEach(key -> keys.add(shown(key)));
            shown.put(name, keys);
        });
        System.out.println(JSON.writeValueAsString(shown));
    }

    static Map<String, String> properties(JsonNode given) {
        Map<String, String> properties = new LinkedHashMap<>();
        given.properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        return properties;
    }

    /** The groups of topics of a source, each with the topics of the question that it has, or an error. */
    static Object groups(JsonNode question) {
        try {
            SourceConnectorConfig config = new SourceConnectorConfig(PLUGINS, properties(question.get(1)), true);
            List<Object> groups = new ArrayList<>();
            TopicCreationGroup.configuredGroups(config).values().forEach(group -> {
                List<String> topics = new ArrayList<>();
                question.get(2).forEach(topic -> {
                    if (group.matches(topic.asText()))
                        topics.add(topic.asText());
                });
                NewTopic made = group.newTopic("any");
                groups.add(List.of(group.name(), topics, made.replicationFactor(), made.numPartitions(),
                    new TreeMap<>(made.configs())));
            });
            return groups;
        } catch (ConfigException refused) {
            return refused.getMessage();
        }
    }

    static Map<String, List<String>> errors(Map<String, ConfigDef> definitions, JsonNode question) {
        Map<String, String> properties = properties(question.get(1));
        Map<String, List<String>> errors = new TreeMap<>();
        try {
            definitions.get(question.get(0).asText()).validateAll(properties).forEach((name, value) -> {
                if (!value.errorMessages().isEmpty())
                    errors.put(name, value.errorMessages());
            });
            return errors;
        } catch (NullPointerException missing) {
            return null;  // some validators fail on what could not be parsed
        }
    }

    static Map<String, Object> shown(ConfigDef.ConfigKey key) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("name", key.name);
        shown.put("type", key.type.name());
        shown.put("required", !key.hasDefault());
        shown.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        shown.put("validator", key.validator == null ? null : key.validator.toString());
        shown.put("importance", key.importance.name());
        shown.put("group", key.group);
        shown.put("order", key.orderInGroup);
        shown.put("width", key.width.name());
        shown.put("display_name", key.displayName);
        shown.put("dependents", key.dependents);
        shown.put("internal", key.internalConfig);
        return shown;
    }
}
