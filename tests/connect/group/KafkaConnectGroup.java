package org.apache.kafka.connect.runtime.distributed;

import jakarta.ws.rs.core.HttpHeaders;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.KeyGenerator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Apache Kafka's classes of a Connect group. Argument: a file with a command a line, whose words are separated by tabs;
 * texts and bytes are hexadecimal digits. Each command is answered by one line.
 */
public class KafkaConnectGroup {
    private static final HexFormat HEX = HexFormat.of();
    private static final LogContext LOG = new LogContext();

    private final Map<String, Coordinator> workers = new HashMap<>();
    private long nowMs;

    public static void main(String[] arguments) throws Exception {
        KafkaConnectGroup group = new KafkaConnectGroup();
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
             PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8")) {
            for (String line = in.readLine(); line != null; line = in.readLine())
                out.print(group.answer(line.split("\t", -1)) + '\n');
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "encode": return encode(words);
            case "decode": return decode(words[1], ByteBuffer.wrap(HEX.parseHex(words[2])));
            case "worker": workers.put(words[1], new Coordinator(Integer.parseInt(words[2]))); return "";
            case "round": return round(words);
            case "sign": return sign(words);
            case "check": return check(words);
            case "key": return Integer.toString(KeyGenerator.getInstance(words[1]).generateKey().getEncoded().length);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private static String encode(String[] words) {
        short version = Short.parseShort(words[1]);
        ExtendedAssignment assignment = words.length < 5 ? null : new ExtendedAssignment(
            version, Short.parseShort(words[4]), text(words[5]), text(words[6]), Long.parseLong(words[7]),
            texts(words[8]), tasks(words[9]), texts(words[10]), tasks(words[11]), Integer.parseInt(words[12]));
        ExtendedWorkerState state = new ExtendedWorkerState(text(words[2]), Long.parseLong(words[3]), assignment);
        ByteBuffer metadata = version == 0
            ? ConnectProtocol.serializeMetadata(state)
            : IncrementalCooperativeConnectProtocol.serializeMetadata(state, version == 2);
        String answer = hex(metadata);
        if (assignment != null)
            answer += "\t" + hex(version == 0
                ? ConnectProtocol.serializeAssignment(assignment)
                : IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, version == 2));
        return answer;
    }

    private static String decode(String what, ByteBuffer data) {
        try {
            if (what.equals("assignment"))
                return described(IncrementalCooperativeConnectProtocol.deserializeAssignment(data));
            ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(data);
            String answer = hex(state.url()) + "\t" + state.offset();
            boolean isEmpty = state.assignment() == ExtendedAssignment.empty();
            return isEmpty ? answer : answer + "\t" + described(state.assignment());
        } catch (RuntimeException refused) {
            return "refused";
        }
    }

    private static String described(ExtendedAssignment found) {
        return String.join("\t", Short.toString(found.version()), Short.toString(found.error()), hex(found.leader()),
            hex(found.leaderUrl()), Long.toString(found.offset()), hexes(found.connectors()), hexTasks(found.tasks()),
            hexes(found.revokedConnectors()), hexTasks(found.revokedTasks()), Integer.toString(found.delay()));
    }

    /** Words: worker, protocol, leader, generation, last completed one, time, offset, connectors, later ones, members. */
    private String round(String[] words) {
        Coordinator worker = workers.get(words[1]);
        worker.generation = Integer.parseInt(words[4]);
        worker.lastCompleted = Integer.parseInt(words[5]);
        nowMs = Long.parseLong(words[6]);
        worker.configSnapshot(configured(words[7]));
        worker.fresh = configured(words[8]);
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (String member : words[9].split(" ")) {
            String[] parts = member.split("=");
            members.add(new JoinGroupResponseMember()
                .setMemberId(text(parts[0])).setMetadata(HEX.parseHex(parts[1])));
        }
        ConnectProtocolCompatibility protocol = ConnectProtocolCompatibility.fromProtocol(words[2]);
        ConnectAssignor assignor = protocol == ConnectProtocolCompatibility.EAGER ? worker.eager : worker.incremental;
        worker.leaderState(null);
        Map<String, String> assignments = new TreeMap<>();
        assignor.performAssignment(text(words[3]), protocol, members, worker)
            .forEach((member, data) -> assignments.put(hex(member), hex(data)));
        return assignments.toString();
    }

    /** The offset, and after it connectors with the number of their tasks. */
    private static ClusterConfigState configured(String described) {
        String[] parts = described.split(" ");
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        for (int i = 1; i < parts.length; i++) {
            String[] connector = parts[i].split("=");
            counts.put(text(connector[0]), Integer.valueOf(connector[1]));
            configs.put(text(connector[0]), Map.of());
        }
        return new ClusterConfigState(Long.parseLong(parts[0]), null, counts, configs, Map.of(), Map.of(), Map.of(),
            Map.of(), Map.of(), Set.of(), Set.of());
    }

    private static String sign(String[] words) throws Exception {
        Mac mac = Mac.getInstance(words[1]);
        mac.init(new SecretKeySpec(HEX.parseHex(words[2]), words[1]));
        return Base64.getEncoder().encodeToString(mac.doFinal(HEX.parseHex(words[3])));
    }

    /** Words: algorithm, signature in base64, key, body. */
    private static String check(String[] words) {
        HttpHeaders headers = (HttpHeaders) Proxy.newProxyInstance(
            HttpHeaders.class.getClassLoader(), new Class<?>[] {HttpHeaders.class},
            (proxy, method, arguments) -> arguments[0].equals(InternalRequestSignature.SIGNATURE_HEADER)
                ? words[2] : words[1]);
        try {
            InternalRequestSignature signature =
                InternalRequestSignature.fromHeaders(Crypto.SYSTEM, HEX.parseHex(words[4]), headers);
            return Boolean.toString(signature.isValid(new SecretKeySpec(HEX.parseHex(words[3]), "HmacSHA256")));
        } catch (org.apache.kafka.connect.runtime.rest.errors.BadRequestException refused) {
            return "400 " + refused.getMessage();
        }
    }

    private static List<String> texts(String words) {
        return words.isEmpty()
            ? List.of()
            : List.of(words.split(" ")).stream().map(KafkaConnectGroup::text).collect(Collectors.toList());
    }

    private static List<ConnectorTaskId> tasks(String words) {
        List<ConnectorTaskId> found = new ArrayList<>();
        for (String word : words.isEmpty() ? new String[0] : words.split(" ")) {
            String[] parts = word.split(":");
            found.add(new ConnectorTaskId(text(parts[0]), Integer.parseInt(parts[1])));
        }
        return found;
    }

    private static String text(String word) {
        return new String(HEX.parseHex(word), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String hexes(Collection<String> texts) {
        return texts.stream().map(KafkaConnectGroup::hex).collect(Collectors.joining(" "));
    }

    private static String hexTasks(Collection<ConnectorTaskId> tasks) {
        return tasks.stream().map(task -> hex(task.connector()) + ":" + task.task()).collect(Collectors.joining(" "));
    }

    private static String hex(ByteBuffer data) {
        return HEX.formatHex(data.array(), data.position(), data.limit());
    }

    /** A worker without a network: a round says which generation it has and what it knows of the config topic. */
    private class Coordinator extends WorkerCoordinator {
        private final ConnectAssignor eager = new EagerAssignor(LOG);
        private final ConnectAssignor incremental;
        private int generation;
        private int lastCompleted;
        private ClusterConfigState fresh;

        Coordinator(int maxDelayMs) {
            super(new GroupRebalanceConfig(10_000, 60_000, 3_000, "group", Optional.empty(), null, 100, 1_000), LOG,
                null, new Metrics(), "connect", Time.SYSTEM, "", null, null,
                ConnectProtocolCompatibility.SESSIONED, maxDelayMs);
            incremental = new IncrementalCooperativeAssignor(LOG, clock(), maxDelayMs);
        }

        @Override
        public int generationId() {
            return generation;
        }

        @Override
        public int lastCompletedGenerationId() {
            return lastCompleted;
        }

        @Override
        public ClusterConfigState configFreshSnapshot() {
            return fresh;
        }
    }

    private Time clock() {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> nowMs);
    }
}
