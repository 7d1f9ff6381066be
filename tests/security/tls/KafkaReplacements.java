import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.network.ConnectionMode;
import org.apache.kafka.common.security.ssl.SslFactory;

/**
 * Apache Kafka's decisions about changes of a listener's key store. The argument names a file with a case a line:
 * the old store, the new one (PEM files), whether another name and other alternative names are allowed.
 */
public class KafkaReplacements {
    public static void main(String[] arguments) throws Exception {
        Security.setProperty("keystore.pkcs12.keyPbeIterationCount", "1");  // Java encrypts keys in memory, too
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split("\t");
            SslFactory factory = new SslFactory(ConnectionMode.SERVER);
            factory.configure(configs(words[0], words[0], words[2], words[3]));
            try {
                factory.validateReconfiguration(configs(words[1], words[0], words[2], words[3]));
                System.out.println("accepted");
            } catch (ConfigException error) {
                System.out.println(error.getMessage().contains("SubjectAltNames") ? "alternative names" : "name");
            }
        }
    }

    private static Map<String, Object> configs(
            String store, String trusted, String allowsName, String allowsAlternativeNames) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("ssl.protocol", "TLSv1.3");
        configs.put("ssl.enabled.protocols", List.of("TLSv1.3"));
        configs.put("ssl.cipher.suites", List.of());
        configs.put("ssl.client.auth", "none");
        configs.put("ssl.keystore.type", "PEM");
        configs.put("ssl.keystore.location", store);
        configs.put("ssl.truststore.type", "PEM");
        configs.put("ssl.truststore.location", trusted);  // the default is all authorities that Java knows
        configs.put("ssl.allow.dn.changes", Boolean.valueOf(allowsName));
        configs.put("ssl.allow.san.changes", Boolean.valueOf(allowsAlternativeNames));
        return configs;
    }
}
