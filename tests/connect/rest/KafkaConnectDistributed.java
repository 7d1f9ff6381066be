import java.io.FileInputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/**
 * Apache Kafka Connect's distributed worker. Its argument is a file of properties. It prints the URL of its REST API
 * when that answers, and ends with its input.
 */
public class KafkaConnectDistributed {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        Map<String, String> settings = new HashMap<>();
        properties.forEach((name, value) -> settings.put((String) name, (String) value));
        Connect<?> connect = new ConnectDistributed().startConnect(settings);
        System.out.println(connect.rest().advertisedUrl());
        while (System.in.read() >= 0)
            continue;
        connect.stop();
        connect.awaitStop();
    }
}
