package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's controller without a node. Reads a command a line, prints what was decided: "R" and a response or
 * "E" and an error, a line "r" for every record, which is then replayed, and a line ".".
 */
public class KafkaController {
    private static final int NODE_ID = 1;
    private static final HexFormat HEX = HexFormat.of();

    private final StoppedTime time = new StoppedTime();
    private final Random random = new Random(0);
    private final FeatureControlManager features;
    private final ClusterControlManager cluster;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager replication;
    private final ProducerIdControlManager producerIds;
    private final PrintStream out;
    private long nextOffset = 0;

    private KafkaController(PrintStream out) {
        this.out = out;
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        features = new FeatureControlManager.Builder().
            setSnapshotRegistry(registry).
            setQuorumFeatures(new QuorumFeatures(
                NODE_ID, QuorumFeatures.defaultSupportedFeatureMap(false), List.of(NODE_ID))).
            build();
        cluster = new ClusterControlManager.Builder().
            setClusterId("a-cluster").
            setTime(time).
            setSnapshotRegistry(registry).
            setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(9000)).
            setReplicaPlacer(new StripedReplicaPlacer(random)).
            setFeatureControlManager(features).
            setBrokerShutdownHandler(this::handleBrokerShutdown).
            build();
        configs = new ConfigurationControlManager.Builder().
            setSnapshotRegistry(registry).
            setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema()).
            setStaticConfig(Map.of("node.id", "1")).
            setNodeId(NODE_ID).
            setFeatureControl(features).
            build();
        replication = new ReplicationControlManager.Builder().
            setSnapshotRegistry(registry).
            setConfigurationControl(configs).
            setClusterControl(cluster).
            setFeatureControl(features).
            build();
        producerIds = new ProducerIdControlManager.Builder().
            setSnapshotRegistry(registry).
            setClusterControlManager(cluster).
            build();
        cluster.activate();
    }

    private void handleBrokerShutdown(int brokerId, boolean cleanly, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(brokerId, cleanly, records);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false);
        KafkaController controller = new KafkaController(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            controller.run(line.split(" "));
            out.println(".");
            out.flush();
        }
    }

    private void run(String[] words) throws Exception {
        try {
            switch (words[0]) {
                case "at" -> time.nowMs = Long.parseLong(words[1]);
                case "seed" -> random.setSeed(Long.parseLong(words[1]));
                case "feature" -> write(List.of(new ApiMessageAndVersion(new FeatureLevelRecord().
                    setName(words[1]).setFeatureLevel(Short.parseShort(words[2])), (short) 0)));
                case "takeover" -> {
                    cluster.deactivate();
                    cluster.activate();
                }
                case "fence" -> flag(replication.maybeFenceOneStaleBroker());
                case "balance" -> flag(replication.maybeBalancePartitionLeaders());
                case "unclean" -> flag(replication.maybeElectUncleanLeaders());
                case "config" -> config(words[1], words[2], words[3]);
                default -> request(words[0], Short.parseShort(words[1]), HEX.parseHex(words.length > 2 ? words[2] : ""));
            }
        } catch (Throwable e) {
            ApiError error = ApiError.fromThrowable(e);
            if (error.error().code() == -1) e.printStackTrace();
            out.println("E " + error.error().code() + " " + error.message());
        }
    }

    private void flag(ControllerResult<Boolean> result) {
        out.println("R " + result.response());
        write(result.records());
    }

    private void config(String topic, String name, String value) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.forId((byte) (topic.equals("-") ? 4 : 2)),
            topic.equals("-") ? "" : topic);
        OpType type = value.equals("-") ? OpType.DELETE : OpType.SET;
        Map<String, Map.Entry<OpType, String>> change =
            Map.of(name, new SimpleImmutableEntry<>(type, value.equals("-") ? null : value));
        ControllerResult<Map<ConfigResource, ApiError>> result =
            configs.incrementalAlterConfigs(Map.of(resource, change), false, true);
        out.println("R " + result.response().get(resource).error().code());
        write(result.records());
    }

    private void request(String name, short version, byte[] data) throws Exception {
        ApiMessage request = (ApiMessage) Class.forName("org.apache.kafka.common.message." + name + "RequestData").
            getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
        ControllerResult<? extends ApiMessage> result = decide(request, version);
        ByteBuffer response = MessageUtil.toByteBufferAccessor(result.response(), version).buffer();
        byte[] bytes = new byte[response.remaining()];
        response.get(bytes);
        out.println("R " + HEX.formatHex(bytes));
        write(result.records());
        if (request instanceof BrokerHeartbeatRequestData heartbeat) {
            afterHeartbeat(heartbeat, (BrokerHeartbeatResponseData) result.response());
        }
    }

    private ControllerResult<? extends ApiMessage> decide(ApiMessage message, short version) throws Exception {
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        if (message instanceof BrokerRegistrationRequestData request) {
            Map<String, Short> finalized = new HashMap<>(features.finalizedFeatures(Long.MAX_VALUE).featureMap());
            finalized.put(KRaftVersion.FEATURE_NAME, (short) 0);
            var result = cluster.registerBroker(request, nextOffset,
                new FinalizedControllerFeatures(finalized, Long.MAX_VALUE), version >= 3);
            return ControllerResult.of(result.records(),
                new BrokerRegistrationResponseData().setBrokerEpoch(result.response().epoch()));
        } else if (message instanceof BrokerHeartbeatRequestData request) {
            cluster.trackBrokerHeartbeat(request.brokerId(), request.brokerEpoch());
            cluster.checkBrokerEpoch(request.brokerId(), request.brokerEpoch());
            var result = replication.processBrokerHeartbeat(
                request, cluster.registerBrokerRecordOffset(request.brokerId()).getAsLong());
            BrokerHeartbeatReply reply = result.response();
            inControlledShutdown = reply.inControlledShutdown();
            return ControllerResult.of(result.records(), new BrokerHeartbeatResponseData().
                setIsCaughtUp(reply.isCaughtUp()).
                setIsFenced(reply.isFenced()).
                setShouldShutDown(reply.shouldShutDown()));
        } else if (message instanceof CreateTopicsRequestData request) {
            return replication.createTopics(context, request,
                request.topics().stream().map(topic -> topic.name()).collect(Collectors.toSet()), true);
        } else if (message instanceof CreatePartitionsRequestData request) {
            List<CreatePartitionsRequestData.CreatePartitionsTopic> topics = new ArrayList<>();
            request.topics().forEach(topics::add);
            var result = replication.createPartitions(context, topics);
            return ControllerResult.of(result.records(), new CreatePartitionsResponseData().setResults(result.response()));
        } else if (message instanceof DeleteTopicsRequestData request) {
            var result = replication.deleteTopics(context,
                request.topics().stream().map(topic -> topic.topicId()).collect(Collectors.toList()));
            return ControllerResult.of(result.records(), new DeleteTopicsResponseData());
        } else if (message instanceof AlterPartitionRequestData request) {
            return replication.alterPartition(context, request);
        } else if (message instanceof ElectLeadersRequestData request) {
            return replication.electLeaders(request);
        } else if (message instanceof AlterPartitionReassignmentsRequestData request) {
            return replication.alterPartitionReassignments(request);
        } else if (message instanceof ListPartitionReassignmentsRequestData request) {
            return ControllerResult.of(List.of(),
                replication.listPartitionReassignments(request.topics(), Long.MAX_VALUE));
        } else if (message instanceof AssignReplicasToDirsRequestData request) {
            return replication.handleAssignReplicasToDirs(request);
        } else if (message instanceof UnregisterBrokerRequestData request) {
            return ControllerResult.of(replication.unregisterBroker(request.brokerId()).records(),
                new UnregisterBrokerResponseData());
        } else if (message instanceof AllocateProducerIdsRequestData request) {
            var result = producerIds.generateNextProducerId(request.brokerId(), request.brokerEpoch());
            return ControllerResult.of(result.records(), new AllocateProducerIdsResponseData().
                setProducerIdStart(result.response().firstProducerId()).
                setProducerIdLen(result.response().size()));
        }
        throw new IllegalArgumentException(message.toString());
    }

    private boolean inControlledShutdown;

    private void afterHeartbeat(BrokerHeartbeatRequestData request, BrokerHeartbeatResponseData response)
            throws Exception {
        BrokerHeartbeatManager heartbeats = cluster.heartbeatManager();
        if (inControlledShutdown) {
            heartbeats.maybeUpdateControlledShutdownOffset(request.brokerId(), nextOffset - 1);
        }
        if (response.shouldShutDown()) {
            // Who was let go may come back without waiting: the one thing that is different on purpose.
            Field contacts = BrokerHeartbeatTracker.class.getDeclaredField("contactTimes");
            contacts.setAccessible(true);
            ((Map<?, ?>) contacts.get(heartbeats.tracker())).remove(
                new BrokerIdAndEpoch(request.brokerId(), request.brokerEpoch()));
        }
    }

    private void write(List<ApiMessageAndVersion> records) {
        for (ApiMessageAndVersion record : records) {
            var serde = MetadataRecordSerde.INSTANCE;
            var cache = new org.apache.kafka.common.protocol.ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(buffer));
            out.println("r " + HEX.formatHex(buffer.array()));
            replay(record.message());
            nextOffset++;
        }
    }

    private void replay(ApiMessage message) {
        if (message instanceof RegisterBrokerRecord record) cluster.replay(record, nextOffset);
        else if (message instanceof UnregisterBrokerRecord record) cluster.replay(record);
        else if (message instanceof BrokerRegistrationChangeRecord record) cluster.replay(record);
        else if (message instanceof TopicRecord record) replication.replay(record);
        else if (message instanceof PartitionRecord record) replication.replay(record);
        else if (message instanceof PartitionChangeRecord record) replication.replay(record);
        else if (message instanceof RemoveTopicRecord record) replication.replay(record);
        else if (message instanceof ClearElrRecord record) replication.replay(record);
        else if (message instanceof ConfigRecord record) configs.replay(record);
        else if (message instanceof FeatureLevelRecord record) features.replay(record);
        else if (message instanceof ProducerIdsRecord record) producerIds.replay(record);
        else throw new IllegalArgumentException(message.toString());
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
