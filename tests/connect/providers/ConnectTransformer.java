import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.ConfigTransformerResult;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;

/**
 * Kafka's ConfigTransformer. Argument: a file with a configuration in each line, and the properties of Kafka's
 * providers. The answers are the values and times to live, or the message of an error.
 */
public class ConnectTransformer {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    static Object answer(JsonNode question) {
        try {
            ConfigTransformerResult result = new ConfigTransformer(providers(question.get(1)))
                .transform(texts(question.get(0)));
            return Map.of("properties", new TreeMap<>(result.data()), "ttls", new TreeMap<>(result.ttls()));
        } catch (ConfigException refused) {
            return Map.of("error", String.valueOf(refused.getMessage()));
        }
    }

    static Map<String, ConfigProvider> providers(JsonNode properties) {
        Map<String, ConfigProvider> providers = new HashMap<>();
        providers.put("file", new FileConfigProvider());
        providers.put("dir", new DirectoryConfigProvider());
        providers.put("env", new EnvVarConfigProvider(Map.of("HOME_OF_IT", "here", "OTHER", "there", "EMPTY_ONE", "")));
        providers.put("own", new Own());
        providers.forEach((name, provider) ->
            provider.configure(properties.has(name) ? texts(properties.get(name)) : Map.of()));
        return providers;
    }

    static Map<String, String> texts(JsonNode given) {
        Map<String, String> texts = new LinkedHashMap<>();
        given.properties().forEach(each -> texts.put(each.getKey(),
            each.getValue().isNull() ? null : each.getValue().asText()));
        return texts;
    }

    /** Has the value "path-key" for each key that begins with a k; a path of digits is the time to live. */
    static class Own implements ConfigProvider {
        @Override
        public void configure(Map<String, ?> properties) {
        }

        @Override
        public ConfigData get(String path) {
            return get(path, Set.of());
        }

        @Override
        public ConfigData get(String path, Set<String> keys) {
            Map<String, String> values = new HashMap<>();
            for (String key : keys) {
                if (key.startsWith("k"))
                    values.put(key, path + "-${own:k}" + key);
            }
            return new ConfigData(values, path.matches("-?[0-9]+") ? Long.valueOf(path) : null);
        }

        @Override
        public void close() {
        }
    }
}
