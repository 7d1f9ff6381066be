package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.FileReader;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Apache Kafka's AclControlManager and StandardAuthorizer. Arguments: super users, whether everything is allowed
 * without an ACL, and a file with a command a line, whose words are separated by tabs. Decisions are printed by the
 * audit log, everything else here.
 */
public class KafkaAuthorizer {
    private static final HexFormat HEX = HexFormat.of();

    private final AclControlManager manager = new AclControlManager.Builder().build();
    private final StandardAuthorizer authorizer = new StandardAuthorizer();

    private KafkaAuthorizer(String superUsers, String allowWithoutAcl) {
        authorizer.configure(Map.of(
            "node.id", "1", "super.users", superUsers, "allow.everyone.if.no.acl.found", allowWithoutAcl));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
    }

    public static void main(String[] arguments) throws Exception {
        KafkaAuthorizer oracle = new KafkaAuthorizer(arguments[0], arguments[1]);
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[2]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                oracle.run(line.split("\t"));
            }
        }
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "create" -> create(HEX.parseHex(words[1]));
            case "delete" -> delete(HEX.parseHex(words[1]));
            case "ask" -> {
                ResourcePattern resource = new ResourcePattern(
                    ResourceType.fromCode(Byte.parseByte(words[4])), words[5], PatternType.LITERAL);
                Action action = new Action(
                    AclOperation.fromCode(Byte.parseByte(words[3])), resource, 1, true, true);
                authorizer.authorize(new Requester(words[1], words[2]), List.of(action));
            }
            default -> System.out.println("some " + (AuthorizationResult.ALLOWED == authorizer.authorizeByResourceType(
                new Requester(words[1], words[2]), AclOperation.fromCode(Byte.parseByte(words[3])),
                ResourceType.fromCode(Byte.parseByte(words[4])))));
        }
    }

    private void create(byte[] data) {
        var request = new CreateAclsRequestData(new ByteBufferAccessor(ByteBuffer.wrap(data)), (short) 3);
        List<AclBinding> bindings = request.creations().stream().map(CreateAclsRequest::aclBinding).toList();
        var result = manager.createAcls(bindings);
        System.out.println("create " + result.response().stream()
            .map(each -> each.exception().map(e -> describe(ApiError.fromThrowable(e))).orElse("0"))
            .collect(Collectors.joining(",")) + " records " + result.records().size());
        for (ApiMessageAndVersion written : result.records()) {
            AccessControlEntryRecord record = (AccessControlEntryRecord) written.message();
            manager.replay(record);
            authorizer.addAcl(record.id(), StandardAcl.fromRecord(record));
        }
    }

    private void delete(byte[] data) {
        var request = new DeleteAclsRequestData(new ByteBufferAccessor(ByteBuffer.wrap(data)), (short) 3);
        var result = manager.deleteAcls(new DeleteAclsRequest.Builder(request).build((short) 3).filters());
        System.out.println("delete " + result.response().stream()
            .map(each -> each.aclBindingDeleteResults().stream()
                .map(deleted -> StandardAcl.fromAclBinding(deleted.aclBinding()).toString())
                .sorted().collect(Collectors.joining(";")))
            .collect(Collectors.joining("|")) + " records " + result.records().size());
        for (ApiMessageAndVersion written : result.records()) {
            RemoveAccessControlEntryRecord record = (RemoveAccessControlEntryRecord) written.message();
            manager.replay(record);
            authorizer.removeAcl(record.id());
        }
    }

    private static String describe(ApiError error) {
        return error.error().code() + " " + error.message();
    }

    private record Requester(String name, String host) implements AuthorizableRequestContext {
        @Override
        public KafkaPrincipal principal() {
            return SecurityUtils.parseKafkaPrincipal(name);
        }

        @Override
        public InetAddress clientAddress() {
            try {
                return InetAddress.getByName(host);
            } catch (java.net.UnknownHostException e) {
                throw new IllegalArgumentException(e);
            }
        }

        @Override
        public int requestType() {
            return ApiKeys.LIST_OFFSETS.id;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
