import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.WorkerGroupMember;
import org.apache.kafka.connect.runtime.distributed.WorkerRebalanceListener;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Apache Kafka's WorkerGroupMember without connectors. Arguments: bootstrap servers, group, URL, connect.protocol, the
 * offset of the config topic, a connector and the number of its tasks. It joins again after what was revoked, as
 * DistributedHerder does. Each line that it prints is an assignment: the leader's URL, the offset, the delay, and all
 * that is assigned. A line on its input ends it: "leave" in order, "halt" at once.
 */
public class KafkaConnectWorker {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "group.id", arguments[1], "connect.protocol", arguments[3],
            "key.converter", "org.apache.kafka.connect.json.JsonConverter",
            "value.converter", "org.apache.kafka.connect.json.JsonConverter",
            "config.storage.topic", "configs", "offset.storage.topic", "offsets", "status.storage.topic", "status",
            "session.timeout.ms", "1500", "heartbeat.interval.ms", "200"));
        settings.put("rebalance.timeout.ms", "20000");
        settings.put("scheduled.rebalance.max.delay.ms", "2000");
        String connector = arguments[5];
        ClusterConfigState configs = new ClusterConfigState(Long.parseLong(arguments[4]), null,
            Map.of(connector, Integer.valueOf(arguments[6])), Map.of(connector, Map.of()), Map.of(), Map.of(), Map.of(),
            Map.of(), Map.of(), Set.of(), Set.of());
        ConfigBackingStore store = (ConfigBackingStore) Proxy.newProxyInstance(
            ConfigBackingStore.class.getClassLoader(), new Class<?>[] {ConfigBackingStore.class},
            (proxy, method, words) -> method.getName().equals("snapshot") ? configs : null);
        Printer printer = new Printer();
        WorkerGroupMember member = new WorkerGroupMember(new DistributedConfig(settings), arguments[2], store, printer,
            Time.SYSTEM, "java", new LogContext());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        ConcurrentLinkedQueue<String> received = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> {
            try {
                received.add(String.valueOf(commands.readLine()));
            } catch (java.io.IOException error) {
                received.add("halt");
            }
        });
        reader.setDaemon(true);
        reader.start();
        while (received.isEmpty())
            drive(member, printer);
        if (received.peek().equals("leave"))
            member.stop();
        Runtime.getRuntime().halt(0);
    }

    private static void drive(WorkerGroupMember member, Printer printer) {
        try {
            member.poll(100, () -> () -> { });
        } catch (WakeupException woken) {
            return;
        }
        ExtendedAssignment assignment = printer.assignment;
        printer.assignment = null;
        if (assignment != null && assignment.delay() > 0)
            printer.dueMs = System.currentTimeMillis() + assignment.delay();
        boolean revokes = assignment != null
            && !(assignment.revokedConnectors().isEmpty() && assignment.revokedTasks().isEmpty());
        if (revokes || System.currentTimeMillis() >= printer.dueMs) {
            printer.dueMs = Long.MAX_VALUE;
            if (revokes) {
                assignment.revokedConnectors().clear();
                assignment.revokedTasks().clear();
            }
            member.requestRejoin();
        }
    }

    private static class Printer implements WorkerRebalanceListener {
        private ExtendedAssignment assignment;
        private long dueMs = Long.MAX_VALUE;

        @Override
        public void onAssigned(ExtendedAssignment found, int generation) {
            assignment = found;
            TreeSet<String> items = new TreeSet<>(found.connectors());
            found.tasks().forEach(task -> items.add(task.toString()));
            System.out.println(
                found.leaderUrl() + " " + found.offset() + " " + found.delay() + " " + String.join(" ", items));
            System.out.flush();
        }

        @Override
        public void onRevoked(String leader, Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        }

        @Override
        public void onPollTimeoutExpiry() {
        }
    }
}
