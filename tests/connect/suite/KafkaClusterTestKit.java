package org.apache.kafka.common.test;

import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import kafka.server.BrokerServer;
import org.apache.kafka.metadata.BrokerState;
import org.mockito.quality.Strictness;

/**
 * Nodes of Penstock where the tests of Kafka Connect and MirrorMaker expect Kafka's own brokers.
 *
 * <p>It stands before Kafka's class of the same name on the class path, so the tests run as they are. The nodes are
 * child processes of one {@code penstock start --brokers N}, which ends with the JVM; the system property
 * {@code penstock.python} names the Python that runs it. Stopping one broker stops all, since the tests do that with
 * one broker only.
 */
public class KafkaClusterTestKit implements AutoCloseable {

    private static final long STOP_S = 60;

    private final int brokerCount;
    private final Map<String, String> configs;
    private final MockFaultHandler faults = new MockFaultHandler("faults");
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private Path directory;
    private Process process;
    private String servers;
    private BrokerState state = BrokerState.NOT_RUNNING;

    public static class Builder {

        private final TestKitNodes nodes;
        private final Map<String, String> configs = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            configs.put(name, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes.brokerNodes().size(), configs);
        }
    }

    private KafkaClusterTestKit(int brokerCount, Map<String, String> configs) {
        this.brokerCount = brokerCount;
        this.configs = configs;
        for (int id = 0; id < brokerCount; id++) {
            brokers.put(id, broker());
        }
    }

    private BrokerServer broker() {
        BrokerServer made = mock(BrokerServer.class, withSettings().strictness(Strictness.LENIENT));
        when(made.brokerState()).thenAnswer(call -> state);
        doAnswer(call -> {
            startup();
            return null;
        }).when(made).startup();
        doAnswer(call -> {
            shutdown();
            return null;
        }).when(made).shutdown();
        return made;
    }

    public void format() throws Exception {
        directory = Files.createTempDirectory("penstock-connect-suite");
    }

    public synchronized void startup() {
        if (process != null) {
            return;
        }
        List<String> words = new ArrayList<>(List.of(System.getProperty("penstock.python"), "-m", "penstock.cli.child"));
        words.add("start");
        words.addAll(List.of("--brokers", String.valueOf(brokerCount), "--data-dir", directory.toString()));
        words.addAll(List.of("--listen", "127.0.0.1:0"));
        configs.forEach((name, value) -> words.addAll(List.of("--set", name + "=" + value)));
        try {
            process = new ProcessBuilder(words).redirectError(new File(directory.toFile(), "errors")).start();
            BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream()));
            String line = output.readLine();
            if (line == null || !line.startsWith("ready on ")) {
                throw new IllegalStateException("Penstock has not started: " + Files.readString(directory.resolve("errors")));
            }
            servers = line.substring("ready on ".length());
            state = BrokerState.RUNNING;
        } catch (java.io.IOException e) {
            throw new IllegalStateException(e);
        }
    }

    public synchronized void shutdown() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(STOP_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        process = null;
        state = BrokerState.NOT_RUNNING;
    }

    public void waitForReadyBrokers() {
        // `penstock start` prints its line once all brokers are ready.
    }

    public String bootstrapServers() {
        return servers;
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() throws Exception {
        shutdown();
        try (Stream<Path> found = Files.walk(directory)) {
            for (Path each : found.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(each);
            }
        }
    }
}
