package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.FileReader;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.DescribeDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.RemoveDelegationTokenRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.DescribeDelegationTokenResponse;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.security.DelegationTokenManager;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.config.DelegationTokenManagerConfigs;

/**
 * Apache Kafka's DelegationTokenControlManager and DelegationTokenManager. Arguments: the secret, the longest lifetime
 * and the time to expiry in milliseconds, and a file with a command a line, whose words are separated by tabs. The
 * answer to a command is one line: the response, and the records with their classes, in hexadecimal digits.
 */
public class KafkaTokens {
    private static final HexFormat HEX = HexFormat.of();
    private static final short NEWEST = 3;
    private static final short OTHERS_NEWEST = 2;

    private final DelegationTokenCache cache = new DelegationTokenCache(Set.of());
    private final DelegationTokenControlManager enabled;
    private final DelegationTokenControlManager disabled;
    private final DelegationTokenManager ofBroker;
    private final List<byte[]> hmacs = new ArrayList<>();
    private final List<String> ids = new ArrayList<>();
    private long nowMs;

    public static void main(String[] arguments) throws Exception {
        KafkaTokens oracle = new KafkaTokens(
            arguments[0], Long.parseLong(arguments[1]), Long.parseLong(arguments[2]));
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[3]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(oracle.answer(line.split("\t", -1)));
            }
        }
    }

    private KafkaTokens(String secret, long maxLifetimeMs, long expiryTimeMs) throws Exception {
        enabled = manager(secret, maxLifetimeMs, expiryTimeMs);
        disabled = manager(null, maxLifetimeMs, expiryTimeMs);
        Map<String, String> config = Map.of(DelegationTokenManagerConfigs.DELEGATION_TOKEN_SECRET_KEY_CONFIG, secret);
        ofBroker = new DelegationTokenManager(new DelegationTokenManagerConfigs(
            new AbstractConfig(DelegationTokenManagerConfigs.CONFIG_DEF, config, false)), cache);
    }

    private DelegationTokenControlManager manager(String secret, long maxLifetimeMs, long expiryTimeMs)
            throws Exception {
        DelegationTokenControlManager made = new DelegationTokenControlManager.Builder()
            .setTokenCache(cache)
            .setDelegationTokenSecretKey(secret)
            .setDelegationTokenMaxLifeMs(maxLifetimeMs)
            .setDelegationTokenExpiryTimeMs(expiryTimeMs)
            .build();
        Field time = DelegationTokenControlManager.class.getDeclaredField("time");
        time.setAccessible(true);
        time.set(made, Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, values) -> nowMs));
        return made;
    }

    /** Words: command, metadata level, whether there is a secret (or a token login), time, requester, number of a token from the newest on, and others. */
    private String answer(String[] words) throws Exception {
        MetadataVersion version = MetadataVersion.fromFeatureLevel(Short.parseShort(words[1]));
        DelegationTokenControlManager manager = words[2].equals("true") ? enabled : disabled;
        nowMs = Long.parseLong(words[3]);
        KafkaPrincipal requester = SecurityUtils.parseKafkaPrincipal(words[4]);
        byte[] hmac = hmac(Integer.parseInt(words[5]));
        var context = new ControllerRequestContext(new RequestHeaderData(), requester, OptionalLong.empty());
        switch (words[0]) {
            case "create": {
                var request = new CreateDelegationTokenRequestData(readable(words[6]), NEWEST);
                var result = manager.createDelegationToken(context, request, version);
                if (result.response().errorCode() == 0) {
                    hmacs.add(result.response().hmac());
                    ids.add(result.response().tokenId());
                }
                return hex(result.response(), NEWEST) + records(result.records());
            }
            case "renew": {
                var request = new RenewDelegationTokenRequestData().setHmac(hmac)
                    .setRenewPeriodMs(Long.parseLong(words[6]));
                var result = manager.renewDelegationToken(context, request, version);
                return hex(result.response(), OTHERS_NEWEST) + records(result.records());
            }
            case "expire": {
                var request = new ExpireDelegationTokenRequestData().setHmac(hmac)
                    .setExpiryTimePeriodMs(Long.parseLong(words[6]));
                var result = manager.expireDelegationToken(context, request, version);
                return hex(result.response(), OTHERS_NEWEST) + records(result.records());
            }
            case "sweep": {
                var result = manager.sweepExpiredDelegationTokens();
                return result.response() + records(result.records());
            }
            case "principal": {
                requester.tokenAuthenticated(words[2].equals("true"));
                return HEX.formatHex(new DefaultKafkaPrincipalBuilder(null, null).serialize(requester));
            }
            default:
                return describe(requester, readable(words[6]), words[7], words[8]);
        }
    }

    private byte[] hmac(int number) {
        return number < 0 || hmacs.isEmpty() ? new byte[] {1, 2, 3} : newest(hmacs, number);
    }

    private static <T> T newest(List<T> all, int number) {
        return all.get(all.size() - 1 - number % all.size());
    }

    private String describe(
            KafkaPrincipal requester, ByteBufferAccessor data, String numbers, String allowedOwners) {
        var request = new DescribeDelegationTokenRequestData(data, NEWEST);
        Optional<List<KafkaPrincipal>> owners = Optional.ofNullable(request.owners()).map(each -> each.stream()
            .map(owner -> new KafkaPrincipal(owner.principalType(), owner.principalName())).toList());
        List<String> described = new ArrayList<>();
        for (String number : numbers.split(" ")) {
            if (!number.isEmpty() && !ids.isEmpty()) {
                described.add(newest(ids, Integer.parseInt(number)));
            }
        }
        List<String> mayDescribe = Arrays.asList(allowedOwners.split(" "));
        var tokens = owners.isPresent() && owners.get().isEmpty()
            ? List.<org.apache.kafka.common.security.token.delegation.DelegationToken>of()
            : ofBroker.getTokens(token -> DelegationTokenManager.filterToken(
                requester, owners, token, described::contains, owner -> mayDescribe.contains(owner.toString())));
        return hex(new DescribeDelegationTokenResponse(NEWEST, 0, Errors.NONE, tokens).data(), NEWEST);
    }

    private String records(List<ApiMessageAndVersion> records) {
        StringBuilder text = new StringBuilder();
        for (ApiMessageAndVersion record : records) {
            if (record.message() instanceof DelegationTokenRecord added) {
                var token = DelegationTokenData.fromRecord(added).tokenInformation();
                cache.updateCache(ofBroker.getDelegationToken(token), Map.of());
            } else if (record.message() instanceof RemoveDelegationTokenRecord removed) {
                cache.removeCache(removed.tokenId());
            }
            text.append('\t').append(record.message().getClass().getSimpleName());
            text.append('\t').append(hex(record.message(), record.version()));
        }
        return text.toString();
    }

    private static ByteBufferAccessor readable(String data) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(data)));
    }

    private static String hex(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }
}
