package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.FileReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData;
import org.apache.kafka.common.metadata.RemoveUserScramCredentialRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.image.ScramDelta;
import org.apache.kafka.image.ScramImage;
import org.apache.kafka.metadata.storage.ScramParser;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Apache Kafka's ScramControlManager, ScramImage and ScramParser. Argument: a file with a command a line, whose words
 * are separated by tabs; bytes and texts are in hexadecimal digits. The answer to a command is one line: the
 * response, and the records with their classes.
 */
public class KafkaScram {
    private static final HexFormat HEX = HexFormat.of();

    private final ScramControlManager manager = new ScramControlManager.Builder().build();
    private ScramImage image = ScramImage.EMPTY;

    public static void main(String[] arguments) throws Exception {
        KafkaScram oracle = new KafkaScram();
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t");
                System.out.println(oracle.answer(words[0], Short.parseShort(words[1]), HEX.parseHex(words[2])));
            }
        }
    }

    private String answer(String command, short level, byte[] data) throws Exception {
        ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(data));
        return switch (command) {
            case "alter" -> alter(new AlterUserScramCredentialsRequestData(readable, (short) 0), level);
            case "describe" -> hex(image.describe(new DescribeUserScramCredentialsRequestData(readable, (short) 0)));
            default -> parse(new String(data, StandardCharsets.UTF_8));
        };
    }

    private String alter(AlterUserScramCredentialsRequestData request, short level) {
        var result = manager.alterCredentials(request, MetadataVersion.fromFeatureLevel(level));
        for (ApiMessageAndVersion written : result.records()) {
            // A delta for each record: one that deletes the last credential of a mechanism loses those set after it.
            ScramDelta delta = new ScramDelta(image);
            if (written.message() instanceof UserScramCredentialRecord record) {
                manager.replay(record);
                delta.replay(record);
            } else if (written.message() instanceof RemoveUserScramCredentialRecord record) {
                manager.replay(record);
                delta.replay(record);
            }
            image = delta.apply();
        }
        return hex(result.response()) + records(result.records());
    }

    @SuppressWarnings("unchecked")
    private static String parse(String text) throws Exception {
        Method parse = ScramParser.class.getDeclaredMethod("parse", List.class);
        parse.setAccessible(true);
        try {
            return "parsed" + records((List<ApiMessageAndVersion>) parse.invoke(null, List.of(text)));
        } catch (InvocationTargetException e) {
            return "refused\t" + e.getCause().getMessage();
        }
    }

    private static String records(List<ApiMessageAndVersion> records) {
        StringBuilder text = new StringBuilder();
        for (ApiMessageAndVersion record : records) {
            text.append('\t').append(record.message().getClass().getSimpleName());
            text.append('\t').append(hex(record.message()));
        }
        return text.toString();
    }

    private static String hex(Message message) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, (short) 0).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }
}
