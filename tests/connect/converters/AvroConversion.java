package org.apache.kafka.connect.data;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.serde.avro.NonRecordContainer;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.io.BufferedWriter;
import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Confluent's translation between Connect and Avro, from Apicurio's copy of it. Arguments: a file with a question a
 * line, as JSON, and a file for the answers, in the notation of KafkaConverters.
 */
public class AvroConversion extends KafkaConverters {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        try (BufferedWriter answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
            for (String line : Files.readAllLines(Path.of(arguments[0])))
                answers.append(KafkaConverters.printed(attempted(JSON.readTree(line)))).append('\n');
        }
    }

    static Object attempted(JsonNode question) {
        try {
            return answered(question);
        } catch (Exception | StackOverflowError failed) {
            return Map.of("error", failed.toString());
        }
    }

    static Object answered(JsonNode question) throws Exception {
        Map<String, String> config = new HashMap<>();
        question.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        AvroData data = new AvroData(new AvroDataConfig(config));
        switch (question.get("op").asText()) {
            case "schema":
                return data.fromConnectSchema(schema(question.get("schema"))).toString();
            case "write": {
                Schema schema = schema(question.get("schema"));
                Object value = data.fromConnectData(schema, value(question.get("value")));
                if (value instanceof NonRecordContainer container)
                    value = container.getValue();
                return value == null ? null : encoded(data.fromConnectSchema(schema), value);
            }
            default: {
                org.apache.avro.Schema avro = new org.apache.avro.Schema.Parser().parse(question.get("text").asText());
                byte[] bytes = question.get("data").binaryValue();
                Object value = new GenericDatumReader<>(avro).read(null, DecoderFactory.get().binaryDecoder(bytes, null));
                return shown(data.toConnectData(avro, value, question.get("version").intValue()));
            }
        }
    }

    static String encoded(org.apache.avro.Schema avro, Object value) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<>(avro).write(value, encoder);
        encoder.flush();
        return Base64.getEncoder().encodeToString(out.toByteArray());
    }
}
