import java.io.BufferedReader;
import java.io.FileReader;
import java.net.InetAddress;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.server.ClientRequestQuotaManager;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Apache Kafka's quota managers, driven as its KafkaApis drives them. Arguments: the number and the seconds of samples,
 * and a file with a command a line, whose words are separated by tabs. Prints the throttle time of each request.
 */
public class KafkaQuotas {
    private static final double PERCENT_SECONDS_PER_NS = 100.0 / TimeUnit.SECONDS.toNanos(1);

    private final Clock clock = new Clock();
    private final ClientQuotaManager produce;
    private final ClientQuotaManager fetch;
    private final ClientRequestQuotaManager request;

    private KafkaQuotas(int samples, int seconds) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, seconds);
        Metrics metrics = new Metrics(new MetricConfig(), List.of(), clock);
        produce = new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, clock, "");
        fetch = new ClientQuotaManager(config, metrics, QuotaType.FETCH, clock, "");
        request = new ClientRequestQuotaManager(config, metrics, clock, "", Optional.empty());
    }

    public static void main(String[] arguments) throws Exception {
        KafkaQuotas oracle = new KafkaQuotas(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1]));
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[2]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                oracle.run(line.split("\t", -1));
            }
        }
        System.exit(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "wait" -> clock.nowMs += Long.parseLong(words[1]);
            case "quota" -> managerOf(words[1]).updateQuota(user(words[2]), client(words[3]),
                words[4].isEmpty() ? Optional.empty() : Optional.of(new Quota(Double.parseDouble(words[4]), true)));
            default -> System.out.println(ask(words[0], sessionOf(words[1]), words[2],
                Integer.parseInt(words[3]), Long.parseLong(words[4])));
        }
    }

    private long ask(String api, Session session, String client, int size, long nanos) {
        double percent = nanos * PERCENT_SECONDS_PER_NS;
        long now = clock.milliseconds();
        switch (api) {
            case "produce" -> {
                int bytesMs = produce.maybeRecordAndGetThrottleTimeMs(session, client, size, now);
                return Math.max(bytesMs, request.maybeRecordAndGetThrottleTimeMs(session, client, percent, now));
            }
            case "unanswered" -> {
                return produce.maybeRecordAndGetThrottleTimeMs(session, client, size, now);
            }
            case "fetch" -> {
                int requestMs = request.maybeRecordAndGetThrottleTimeMs(session, client, percent, now);
                int bytesMs = fetch.maybeRecordAndGetThrottleTimeMs(session, client, size, now);
                int longestMs = Math.max(bytesMs, requestMs);
                if (longestMs > 0) {
                    fetch.unrecordQuotaSensor(session, client, size, now);
                }
                return longestMs;
            }
            case "most" -> {
                return (int) fetch.maxValueInQuotaWindow(session, client);
            }
            case "network" -> {
                if (request.quotasEnabled()) {
                    request.recordNoThrottle(session, client, percent);
                }
                return 0;
            }
            default -> {
                return request.maybeRecordAndGetThrottleTimeMs(session, client, percent, now);
            }
        }
    }

    private ClientQuotaManager managerOf(String key) {
        return Map.of("producer_byte_rate", produce, "consumer_byte_rate", fetch, "request_percentage", request).get(key);
    }

    private static Session sessionOf(String user) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    private static Optional<ConfigEntity> user(String name) {
        return switch (name) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default -> Optional.of(new ClientQuotaManager.UserEntity(Sanitizer.sanitize(name)));
        };
    }

    private static Optional<ConfigEntity> client(String name) {
        return switch (name) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default -> Optional.of(new ClientQuotaManager.ClientIdEntity(name));
        };
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
