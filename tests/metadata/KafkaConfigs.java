import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints every config that Apache Kafka's classes define, one a line: owner, name and facts, by tabs. */
public class KafkaConfigs {
    private static final Map<String, String> UPDATE_MODES = DynamicBrokerConfig.dynamicConfigUpdateModes();

    public static void main(String[] arguments) throws Exception {
        Object kafkaConfig = Class.forName("kafka.server.KafkaConfig$").getField("MODULE$").get(null);
        print("broker", (ConfigDef) kafkaConfig.getClass().getMethod("configDef").invoke(kafkaConfig));
        print("broker", QuotaConfig.brokerQuotaConfigs());
        print("topic", LogConfig.configDefCopy());
        print("group", GroupConfig.CONFIG_DEF);
        print("client_metrics", ClientMetricsConfigs.configDef());
    }

    private static void print(String owner, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
            String value = required ? null : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t",
                owner,
                key.name,
                key.type.name(),
                required ? "required" : value == null ? "null" : "=" + value,
                key.internalConfig ? "internal" : "",
                owner.equals("broker") ? UPDATE_MODES.getOrDefault(key.name, "read-only") : "read-only",
                String.join(",", synonyms(owner, key.name)),
                key.validator instanceof ConfigDef.Range ? key.validator.toString() : ""));
        }
    }

    private static Collection<String> synonyms(String owner, String name) {
        if (owner.equals("topic")) {
            Map<String, List<ConfigSynonym>> all = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS;
            return all.getOrDefault(name, List.of()).stream().map(ConfigSynonym::name).toList();
        }
        if (owner.equals("group")) {
            return GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.getOrDefault(name, Optional.empty()).stream().toList();
        }
        return List.of();
    }
}
