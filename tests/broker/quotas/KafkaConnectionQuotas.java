import java.io.BufferedReader;
import java.io.FileReader;
import java.net.InetAddress;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.network.ConnectionQuotas;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.ConnectionThrottledException;
import org.apache.kafka.network.TooManyConnectionsException;
import scala.Option;

/**
 * Apache Kafka's ConnectionQuotas. Arguments: the most connections of an address, and a file with a command a line, whose
 * words are separated by tabs. Prints what happens to each connection.
 */
public class KafkaConnectionQuotas {
    private static final ListenerName LISTENER = new ListenerName("PLAINTEXT");

    private final Clock clock = new Clock();
    private final ConnectionQuotas quotas;

    private KafkaConnectionQuotas(String perAddress) {
        Properties properties = new Properties();
        properties.put("process.roles", "broker");
        properties.put("node.id", "1");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("controller.quorum.voters", "2@localhost:9093");
        properties.put("listeners", "PLAINTEXT://localhost:9092");
        properties.put("log.dirs", "/nowhere");
        properties.put("max.connections.per.ip", perAddress);
        KafkaConfig config = new KafkaConfig(properties);
        quotas = new ConnectionQuotas(config, clock, new Metrics(new MetricConfig(), List.of(), clock));
        quotas.addListener(config, LISTENER);
    }

    public static void main(String[] arguments) throws Exception {
        KafkaConnectionQuotas oracle = new KafkaConnectionQuotas(arguments[0]);
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[1]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                oracle.run(line.split("\t", -1));
            }
        }
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "wait" -> clock.nowMs += Long.parseLong(words[1]);
            case "close" -> quotas.dec(LISTENER, InetAddress.getByName(words[1]));
            case "quota" -> quotas.updateIpConnectionRateQuota(
                words[1].isEmpty() ? Option.empty() : Option.apply(InetAddress.getByName(words[1])),
                words[2].isEmpty() ? Option.empty() : Option.apply((Object) Integer.valueOf(words[2])));
            default -> System.out.println(open(InetAddress.getByName(words[1])));
        }
    }

    private String open(InetAddress address) {
        try {
            quotas.inc(LISTENER, address, null);
            return "opened";
        } catch (ConnectionThrottledException throttled) {
            return "closed after " + throttled.throttleTimeMs;
        } catch (TooManyConnectionsException refused) {
            quotas.dec(LISTENER, address);
            return "refused";
        }
    }

    /** A time that only commands move. */
    private static class Clock implements Time {
        private volatile long nowMs = 1_000_000;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(nowMs);
        }

        @Override
        public void sleep(long ms) {
            nowMs += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
