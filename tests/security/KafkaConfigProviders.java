import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;

/**
 * Apache Kafka's ConfigTransformer. Argument: a file with a value of a configuration a line, in hexadecimal digits. The
 * answers are the values with their variables replaced, in the same form, or "refused".
 */
public class KafkaConfigProviders {
    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigProvider> providers = Map.of(
            "file", new FileConfigProvider(), "dir", new DirectoryConfigProvider(), "env", new EnvVarConfigProvider());
        providers.values().forEach(provider -> provider.configure(Map.of()));
        ConfigTransformer transformer = new ConfigTransformer(providers);
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String value = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8);
            try {
                String found = transformer.transform(Map.of("x", value)).data().get("x");
                System.out.println(HexFormat.of().formatHex(found.getBytes(StandardCharsets.UTF_8)));
            } catch (ConfigException refused) {
                System.out.println("refused");
            }
        }
    }
}
