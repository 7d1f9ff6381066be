import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer with group.protocol=consumer that polls for half a minute: ConsumerProtocol BOOTSTRAP TOPIC */
public class ConsumerProtocol {
    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        settings.put("client.id", words[1] + "-java");
        settings.put("group.protocol", "consumer");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(words[1]));
            for (int second = 0; second < 30; second++) consumer.poll(Duration.ofSeconds(1));
            System.out.println("no error");
        } catch (Exception error) {
            System.out.println(error.getClass().getSimpleName());
        }
        System.exit(0); // the test has its answer; how long close() takes is the client's affair
    }
}
