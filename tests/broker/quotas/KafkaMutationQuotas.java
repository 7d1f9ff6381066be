import java.io.BufferedReader;
import java.io.FileReader;
import java.net.InetAddress;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;

/**
 * Apache Kafka's ControllerMutationQuotaManager. Argument: a file with a command a line, whose words are separated by
 * tabs.
 *
 * limit USER CLIENT_ID RATE: sets a quota, or removes it (-). The names * and - stand for the default and for none.
 * charge NOW_MS USER CLIENT_ID strict|permissive ANSWER_MS PARTITIONS ...: a request that is answered later. The answer
 * is a line: its throttle time, what became of the partitions (y or n each), and the tags and the limit of the client.
 */
public class KafkaMutationQuotas {
    private final StoppedTime time = new StoppedTime();
    private final ControllerMutationQuotaManager manager = new ControllerMutationQuotaManager(
        new ClientQuotaManagerConfig(11, 1), new Metrics(time), time, "", Optional.empty());

    public static void main(String[] arguments) throws Exception {
        KafkaMutationQuotas oracle = new KafkaMutationQuotas();
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t", -1);
                if (words[0].equals("limit")) oracle.limit(words[1], words[2], words[3]);
                else System.out.println(oracle.charge(words));
            }
        }
        oracle.manager.shutdown();
    }

    private void limit(String user, String clientId, String rate) {
        Optional<ConfigEntity> userEntity = user.equals("-") ? Optional.empty() : Optional.of(user.equals("*") ?
            ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(Sanitizer.sanitize(user)));
        Optional<ConfigEntity> clientEntity = clientId.equals("-") ? Optional.empty() : Optional.of(clientId.equals("*") ?
            ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(clientId));
        manager.updateQuota(userEntity, clientEntity, rate.equals("-") ? Optional.empty() :
            Optional.of(Quota.upperBound(Double.parseDouble(rate))));
    }

    private String charge(String[] words) throws Exception {
        time.nowMs = Long.parseLong(words[1]);
        Session session = new Session(
            new KafkaPrincipal(KafkaPrincipal.USER_TYPE, words[2]), InetAddress.getLoopbackAddress());
        ControllerMutationQuota quota = words[4].equals("strict") ?
            manager.newStrictQuotaFor(session, words[3]) : manager.newPermissiveQuotaFor(session, words[3]);
        StringBuilder admitted = new StringBuilder();
        for (int i = 6; i < words.length; i++) {
            try {
                quota.record(Double.parseDouble(words[i]));
                admitted.append('y');
            } catch (ThrottlingQuotaExceededException e) {
                admitted.append('n');
            }
        }
        time.nowMs = Long.parseLong(words[5]);
        Map<String, String> tags = manager.quotasEnabled() ?
            manager.getOrCreateQuotaSensors(session, words[3]).metricTags() : Map.of("user", "", "client-id", words[3]);
        return String.join("\t", Integer.toString(quota.throttleTime()), admitted,
            Sanitizer.desanitize(tags.get("user")), tags.get("client-id"),
            Double.toString(manager.quota(words[2], words[3]).bound()));
    }

    private static class StoppedTime implements Time {
        long nowMs = 0;

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
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
