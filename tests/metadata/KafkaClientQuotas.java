package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.FileReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.DescribeClientQuotasRequestData;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.AlterClientQuotasResponse;
import org.apache.kafka.common.requests.DescribeClientQuotasRequest;
import org.apache.kafka.image.ClientQuotasDelta;
import org.apache.kafka.image.ClientQuotasImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Apache Kafka's ClientQuotaControlManager and ClientQuotasImage. Argument: a file with a request a line: "alter" or
 * "describe", a tab, and its bytes in hexadecimal digits. The answer is one line: the response, then the records.
 */
public class KafkaClientQuotas {
    private static final HexFormat HEX = HexFormat.of();

    private final ClientQuotaControlManager manager = new ClientQuotaControlManager.Builder().build();
    private ClientQuotasImage image = ClientQuotasImage.EMPTY;

    public static void main(String[] arguments) throws Exception {
        KafkaClientQuotas oracle = new KafkaClientQuotas();
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t");
                ByteBufferAccessor data = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(words[1])));
                System.out.println(words[0].equals("alter") ?
                    oracle.alter(new AlterClientQuotasRequestData(data, (short) 0)) :
                    oracle.describe(new DescribeClientQuotasRequestData(data, (short) 0)));
            }
        }
    }

    private String alter(AlterClientQuotasRequestData request) {
        var result = manager.alterClientQuotas(new AlterClientQuotasRequest(request, (short) 0).entries());
        var response = AlterClientQuotasResponse.fromQuotaEntities(result.response(), 0);
        StringBuilder text = new StringBuilder(hex(response.data()));
        ClientQuotasDelta delta = new ClientQuotasDelta(image);
        for (ApiMessageAndVersion written : result.records()) {
            ClientQuotaRecord record = (ClientQuotaRecord) written.message();
            text.append('\t').append(hex(record));
            manager.replay(record);
            delta.replay(record);
        }
        image = delta.apply();
        return text.toString();
    }

    private String describe(DescribeClientQuotasRequestData request) {
        try {
            return hex(image.describe(request));
        } catch (ApiException e) {
            return hex(new DescribeClientQuotasRequest(request, (short) 0).getErrorResponse(0, e).data());
        }
    }

    private static String hex(Message message) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, (short) 0).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }
}
