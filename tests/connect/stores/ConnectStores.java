// Kafka Connect's own stores, driven by commands on standard input: one JSON array a line, with one answer each.
package org.apache.kafka.connect.storage;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.AbstractStatus;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.RestartRequest;
import org.apache.kafka.connect.runtime.SessionKey;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.util.Callback;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.KafkaBasedLog;
import org.apache.kafka.connect.util.TopicAdmin;

public final class ConnectStores {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LIMIT_S = 60;

    private final String servers;
    private final JsonConverter converter = new JsonConverter();
    private final Map<String, KafkaConfigBackingStore> configs = new HashMap<>();
    private final Map<String, KafkaOffsetBackingStore> offsets = new HashMap<>();
    private final Map<String, KafkaStatusBackingStore> statuses = new HashMap<>();
    private final Map<String, List<Object>> events = new HashMap<>();

    private ConnectStores(String servers) {
        this.servers = servers;
        converter.configure(Map.of("schemas.enable", "false"), false);
    }

    public static void main(String[] args) throws Exception {
        ConnectStores stores = new ConnectStores(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = stores.answer(JSON.readTree(line));
            } catch (Throwable e) {
                answer = Map.of("error", e.getClass().getSimpleName() + ": " + e.getMessage());
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
        System.exit(0);
    }

    private Object answer(JsonNode command) throws Exception {
        String verb = command.get(0).asText();
        switch (verb) {
            case "texts":
                return texts(command.get(1));
            case "parse":
                return parse(command.get(1));
            case "replay-configs":
                return replayConfigs(command.get(1));
            case "replay-statuses":
                return replayStatuses(command.get(1));
            case "replay-offsets":
                return replayOffsets(command.get(1));
            case "open":
                return open(command.get(1).asText(), command.get(2).asText(), command.get(3).asBoolean());
            default:
                String name = command.get(1).asText();
                if (verb.startsWith("config-"))
                    return config(verb.substring(7), configs.get(name), name, command);
                if (verb.startsWith("offset-"))
                    return offset(verb.substring(7), offsets.get(name), command);
                return status(verb.substring(7), statuses.get(name), command);
        }
    }

    // The bytes of values, as text; a value is given as JSON with {"bytes": base64} for bytes.
    private Object texts(JsonNode values) throws Exception {
        List<String> found = new ArrayList<>();
        for (JsonNode value : values) {
            byte[] bytes = converter.fromConnectData("t", null, value(value));
            found.add(bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
        }
        return found;
    }

    private static Object value(JsonNode node) throws Exception {
        if (node.isObject() && node.has("bytes"))
            return Base64.getDecoder().decode(node.get("bytes").asText());
        if (node.isObject()) {
            Map<String, Object> map = new LinkedHashMap<>();
            for (Map.Entry<String, JsonNode> entry : node.properties())
                map.put(entry.getKey(), value(entry.getValue()));
            return map;
        }
        if (node.isArray()) {
            List<Object> list = new ArrayList<>();
            for (JsonNode each : node)
                list.add(value(each));
            return list;
        }
        if (node.isIntegralNumber())
            return node.longValue();
        if (node.isNumber())
            return node.doubleValue();
        return node.isNull() ? null : node.isBoolean() ? (Object) node.booleanValue() : node.textValue();
    }

    private Object parse(JsonNode texts) {
        List<Object> found = new ArrayList<>();
        for (JsonNode text : texts) {
            try {
                byte[] bytes = text.asText().getBytes(StandardCharsets.UTF_8);
                found.add(Arrays.asList("ok", converter.toConnectData("t", bytes).value()));
            } catch (Exception e) {
                found.add(Arrays.asList("refused"));
            }
        }
        return found;
    }

    // Records without a cluster

    private static List<ConsumerRecord<byte[], byte[]>> records(JsonNode given) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        for (JsonNode each : given)
            found.add(new ConsumerRecord<>("t", 0, found.size(), bytes(each.get(0)), bytes(each.get(1))));
        return found;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static ConsumerRecord<String, byte[]> named(ConsumerRecord<byte[], byte[]> record) {
        String key = new String(record.key(), StandardCharsets.UTF_8);
        return new ConsumerRecord<>("t", 0, record.offset(), key, record.value());
    }

    @SuppressWarnings("unchecked")
    private Object replayConfigs(JsonNode given) throws Exception {
        List<Object> heard = new ArrayList<>();
        KafkaConfigBackingStore store = new KafkaConfigBackingStore(
            converter, worker("pure", "pure", false), null, () -> null, "pure");
        store.setUpdateListener(listener(heard));
        Field started = KafkaConfigBackingStore.class.getDeclaredField("started");
        started.setAccessible(true);
        started.set(store, true);
        Class<?> type = Class.forName(KafkaConfigBackingStore.class.getName() + "$ConsumeCallback");
        Constructor<?> constructor = type.getDeclaredConstructor(KafkaConfigBackingStore.class);
        constructor.setAccessible(true);
        var callback = (Callback<ConsumerRecord<String, byte[]>>) constructor.newInstance(store);
        for (ConsumerRecord<byte[], byte[]> record : records(given)) {
            try {
                callback.onCompletion(null, named(record));
            } catch (RuntimeException e) {
                // Connect logs the error and goes on with the next poll.
            }
        }
        return List.of(snapshot(store), heard);
    }

    private Object replayStatuses(JsonNode given) {
        KafkaStatusBackingStore store = new KafkaStatusBackingStore(Time.SYSTEM, converter, () -> null, "pure");
        for (ConsumerRecord<byte[], byte[]> record : records(given))
            store.read(named(record));
        return dump(store);
    }

    private Object replayOffsets(JsonNode given) {
        KafkaOffsetBackingStore store = new KafkaOffsetBackingStore(() -> null, () -> "pure", converter);
        for (ConsumerRecord<byte[], byte[]> record : records(given))
            store.consumedCallback.onCompletion(null, record);
        return dump(store);
    }

    // Live stores

    private DistributedConfig worker(String name, String group, boolean exactlyOnce) {
        Map<String, String> properties = new HashMap<>();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", group);
        properties.put("key.converter", JsonConverter.class.getName());
        properties.put("value.converter", JsonConverter.class.getName());
        for (String kind : List.of("config", "offset", "status")) {
            properties.put(kind + ".storage.topic", name + "-" + kind);
            properties.put(kind + ".storage.replication.factor", "1");
        }
        properties.put("offset.storage.partitions", "3");
        properties.put("status.storage.partitions", "1");
        properties.put("exactly.once.source.support", exactlyOnce ? "enabled" : "disabled");
        return new DistributedConfig(properties);
    }

    private Object open(String name, String group, boolean exactlyOnce) {
        DistributedConfig worker = worker(name, group, exactlyOnce);
        Supplier<TopicAdmin> admin = () -> new TopicAdmin(Map.of("bootstrap.servers", servers));
        List<Object> heard = events.computeIfAbsent(name, ignored -> new ArrayList<>());
        KafkaConfigBackingStore config = new KafkaConfigBackingStore(converter, worker, null, admin, name);
        config.setUpdateListener(listener(heard));
        config.start();
        configs.put(name, config);
        KafkaOffsetBackingStore offset = new KafkaOffsetBackingStore(admin, () -> name, converter);
        offset.configure(worker);
        offset.start();
        offsets.put(name, offset);
        KafkaStatusBackingStore status = new KafkaStatusBackingStore(Time.SYSTEM, converter, admin, name);
        status.configure(worker);
        status.start();
        statuses.put(name, status);
        return "ok";
    }

    private Object config(String verb, KafkaConfigBackingStore store, String name, JsonNode command)
            throws Exception {
        String connector = command.has(2) ? command.get(2).asText() : null;
        switch (verb) {
            case "claim":
                store.claimWritePrivileges();
                break;
            case "connector":
                String state = command.get(4).isNull() ? null : command.get(4).asText();
                store.putConnectorConfig(
                    connector, strings(command.get(3)), state == null ? null : TargetState.valueOf(state));
                break;
            case "remove":
                store.removeConnectorConfig(connector);
                break;
            case "tasks":
                List<Map<String, String>> tasks = new ArrayList<>();
                for (JsonNode each : command.get(3))
                    tasks.add(strings(each));
                store.putTaskConfigs(connector, tasks);
                break;
            case "state":
                store.putTargetState(connector, TargetState.valueOf(command.get(3).asText()));
                break;
            case "count":
                store.putTaskCountRecord(connector, command.get(3).asInt());
                break;
            case "key":
                byte[] key = Base64.getDecoder().decode(command.get(2).asText());
                store.putSessionKey(new SessionKey(
                    new SecretKeySpec(key, command.get(3).asText()), command.get(4).asLong()));
                break;
            case "restart":
                store.putRestartRequest(new RestartRequest(
                    connector, command.get(3).asBoolean(), command.get(4).asBoolean()));
                break;
            case "level":
                store.putLoggerLevel(connector, command.get(3).asText());
                break;
            case "events":
                store.refresh(LIMIT_S, TimeUnit.SECONDS);
                return events.get(name);
            default:
                store.refresh(LIMIT_S, TimeUnit.SECONDS);
                return snapshot(store);
        }
        return "ok";
    }

    private static Map<String, String> strings(JsonNode node) throws Exception {
        return JSON.convertValue(node, new TypeReference<LinkedHashMap<String, String>>() { });
    }

    @SuppressWarnings("unchecked")
    private Object offset(String verb, KafkaOffsetBackingStore store, JsonNode command) throws Exception {
        switch (verb) {
            case "write":
                OffsetStorageWriter writer =
                    new OffsetStorageWriter(store, command.get(2).asText(), converter, converter);
                for (JsonNode each : command.get(3))
                    writer.offset(
                        (Map<String, Object>) value(each.get(0)), (Map<String, Object>) value(each.get(1)));
                writer.beginFlush();
                writer.doFlush((error, result) -> { }).get(LIMIT_S, TimeUnit.SECONDS);
                return "ok";
            case "read":
                OffsetStorageReaderImpl reader =
                    new OffsetStorageReaderImpl(store, command.get(2).asText(), converter, converter);
                List<Object> found = new ArrayList<>();
                for (JsonNode each : command.get(3))
                    found.add(reader.offset((Map<String, Object>) value(each)));
                return found;
            default:
                store.offsetLog.readToEnd().get(LIMIT_S, TimeUnit.SECONDS);
                return dump(store);
        }
    }

    @SuppressWarnings("unchecked")
    private Object status(String verb, KafkaStatusBackingStore store, JsonNode command) throws Exception {
        switch (verb) {
            case "put":
                put(store, command);
                return "ok";
            case "topic":
                store.put(new TopicStatus(
                    command.get(2).asText(), command.get(3).asText(), command.get(4).asInt(),
                    command.get(5).asLong()));
                return "ok";
            case "forget":
                store.deleteTopic(command.get(3).asText(), command.get(2).asText());
                return "ok";
            default:
                Field log = KafkaStatusBackingStore.class.getDeclaredField("kafkaLog");
                log.setAccessible(true);
                ((KafkaBasedLog<String, byte[]>) log.get(store)).readToEnd().get(LIMIT_S, TimeUnit.SECONDS);
                return dump(store);
        }
    }

    // ["status-put", store, safe, connector, task or null, state, worker, generation, trace, version]
    private static void put(KafkaStatusBackingStore store, JsonNode command) {
        boolean safe = command.get(2).asBoolean();
        String connector = command.get(3).asText();
        AbstractStatus.State state = AbstractStatus.State.valueOf(command.get(5).asText());
        String worker = command.get(6).asText();
        int generation = command.get(7).asInt();
        String trace = command.get(8).isNull() ? null : command.get(8).asText();
        String version = command.get(9).isNull() ? null : command.get(9).asText();
        if (command.get(4).isNull()) {
            ConnectorStatus status = new ConnectorStatus(connector, state, trace, worker, generation, version);
            if (safe)
                store.putSafe(status);
            else
                store.put(status);
        } else {
            ConnectorTaskId task = new ConnectorTaskId(connector, command.get(4).asInt());
            TaskStatus status = new TaskStatus(task, state, worker, generation, trace, version);
            if (safe)
                store.putSafe(status);
            else
                store.put(status);
        }
    }

    // States as JSON

    private static Object snapshot(KafkaConfigBackingStore store) {
        ClusterConfigState state = store.snapshot();
        Map<String, Object> shown = new TreeMap<>();
        SessionKey key = state.sessionKey();
        shown.put("offset", state.offset());
        shown.put("session_key", key == null ? null : shown(key));
        shown.put("task_counts", state.connectorTaskCounts);
        shown.put("connector_configs", state.connectorConfigs);
        shown.put("target_states", state.connectorTargetStates);
        shown.put("task_configs", byName(state.taskConfigs));
        shown.put("task_count_records", state.connectorTaskCountRecords);
        shown.put("task_config_generations", state.connectorTaskConfigGenerations);
        Map<String, Object> applied = new TreeMap<>();
        state.appliedConnectorConfigs.forEach((name, each) -> applied.put(name, each.transformedConfig(null)));
        shown.put("applied_connector_configs", applied);
        shown.put("pending_fencing", new TreeSet<>(state.connectorsPendingFencing));
        shown.put("inconsistent", new TreeSet<>(state.inconsistentConnectors));
        Map<String, Object> tasks = new TreeMap<>();
        state.connectorConfigs.keySet().forEach(name -> tasks.put(name, state.tasks(name).size()));
        shown.put("tasks", tasks);
        return shown;
    }

    private static Object shown(SessionKey key) {
        String secret = Base64.getEncoder().encodeToString(key.key().getEncoded());
        return List.of(secret, key.key().getAlgorithm(), key.creationTimestamp());
    }

    private static Map<String, Object> byName(Map<ConnectorTaskId, ?> tasks) {
        Map<String, Object> shown = new TreeMap<>();
        tasks.forEach((task, each) -> shown.put(task.toString(), each));
        return shown;
    }

    private static Object dump(KafkaOffsetBackingStore store) {
        Map<String, String> data = new TreeMap<>();
        store.data.forEach((key, value) -> data.put(key == null ? "null" : text(key), text(value)));
        Map<String, Object> partitions = new TreeMap<>();
        for (String connector : List.of("a", "b-c", "é\"", "none")) {
            if (!store.connectorPartitions(connector).isEmpty())
                partitions.put(connector, store.connectorPartitions(connector));
        }
        return List.of(data, partitions);
    }

    private static String text(ByteBuffer bytes) {
        return new String(bytes.array(), StandardCharsets.UTF_8);
    }

    private static Object dump(KafkaStatusBackingStore store) {
        Map<String, Object> shown = new TreeMap<>();
        for (String connector : store.connectors())
            if (store.get(connector) != null)
                shown.put(connector, shown(store.get(connector)));
        Map<String, Object> tasks = new TreeMap<>();
        Map<String, Object> topics = new TreeMap<>();
        for (String connector : List.of("a", "b-c", "c-", "é")) {
            for (TaskStatus status : store.getAll(connector))
                tasks.put(status.id().toString(), shown(status));
            for (TopicStatus status : store.getAllTopics(connector))
                topics.put(connector + "/" + status.topic(), List.of(
                    status.topic(), status.connector(), status.task(), status.discoverTimestamp()));
        }
        return List.of(shown, tasks, topics);
    }

    private static Object shown(AbstractStatus<?> status) {
        String worker = status.workerId() == null ? "" : status.workerId();
        return Arrays.asList(
            status.state(), worker, status.generation(), status.trace(), status.version());
    }

    private static ConfigBackingStore.UpdateListener listener(List<Object> heard) {
        return new ConfigBackingStore.UpdateListener() {
            @Override
            public void onConnectorConfigRemove(String connector) {
                heard.add(List.of("ConnectorRemoved", connector));
            }

            @Override
            public void onConnectorConfigUpdate(String connector) {
                heard.add(List.of("ConnectorUpdated", connector));
            }

            @Override
            public void onTaskConfigUpdate(Collection<ConnectorTaskId> tasks) {
                List<String> names = new ArrayList<>();
                tasks.stream().sorted().forEach(task -> names.add(task.toString()));
                heard.add(List.of("TasksUpdated", names));
            }

            @Override
            public void onConnectorTargetStateChange(String connector) {
                heard.add(List.of("TargetStateChanged", connector));
            }

            @Override
            public void onSessionKeyUpdate(SessionKey key) {
                heard.add(List.of("SessionKeyUpdated", shown(key)));
            }

            @Override
            public void onRestartRequest(RestartRequest request) {
                heard.add(List.of(
                    "RestartRequested", request.connectorName(), request.onlyFailed(), request.includeTasks()));
            }

            @Override
            public void onLoggingLevelUpdate(String namespace, String level) {
                heard.add(List.of("LoggerLevelSet", namespace, level));
            }
        };
    }
}
