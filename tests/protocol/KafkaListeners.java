import java.util.TreeSet;
import org.apache.kafka.common.protocol.ApiKeys;

/** A line for each API: its key, whether an envelope may hold it, and the kinds of listeners it is served on. */
public class KafkaListeners {
    public static void main(String[] arguments) {
        for (ApiKeys api : ApiKeys.values()) {
            if (api.messageType.listeners().isEmpty()) {
                continue;
            }
            TreeSet<String> listeners = new TreeSet<>();
            api.messageType.listeners().forEach(type -> listeners.add(type.name().toLowerCase()));
            System.out.println(api.id + " " + api.forwardable + " " + String.join(" ", listeners));
        }
    }
}
