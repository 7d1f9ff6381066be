package org.apache.kafka.connect.data;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Kafka Connect's converters, and its conversions between values. Arguments: a file with a question a line, as JSON,
 * and a file for the answers. Values are arrays of a type and its content; connect_values.py has the same notation.
 */
public class KafkaConverters {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final Map<String, Object> CONVERTERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        try (BufferedWriter answers = Files.newBufferedWriter(Path.of(arguments[1]))) {
            for (String line : Files.readAllLines(Path.of(arguments[0])))
                answers.append(printed(attempt(JSON.readTree(line)))).append('\n');
        }
    }

    static String printed(Object answer) throws Exception {
        return JSON.writeValueAsString(answer);
    }

    static Object attempt(JsonNode question) {
        try {
            return answer(question);
        } catch (Exception | StackOverflowError failed) {
            return Map.of("error", failed.toString());
        }
    }

    static Object answer(JsonNode question) throws Exception {
        switch (question.get("op").asText()) {
            case "parse":
                return shown(Values.parseString(question.get("text").textValue()));
            case "convert":
                return shown(Values.convertTo(schema(question.get("to")), schema(question.get("from")),
                    value(question.get("value"))));
            case "text":
                return Values.convertToString(schema(question.get("schema")), value(question.get("value")));
            case "infer":
                return shown(Values.inferSchema(value(question.get("value"))));
            case "write":
                return written(question);
            case "read":
                return shown(read(question));
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    static String written(JsonNode question) throws Exception {
        Schema schema = schema(question.get("schema"));
        Object value = value(question.get("value"));
        Object converter = converter(question);
        byte[] bytes = converter instanceof Converter of
            ? of.fromConnectData("topic", schema, value)
            : ((HeaderConverter) converter).fromConnectHeader("topic", "name", schema, value);
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static SchemaAndValue read(JsonNode question) throws Exception {
        byte[] data = question.get("data").isNull() ? null : question.get("data").binaryValue();
        Object converter = converter(question);
        return converter instanceof Converter of
            ? of.toConnectData("topic", data)
            : ((HeaderConverter) converter).toConnectHeader("topic", "name", data);
    }

    static Object converter(JsonNode question) throws Exception {
        String key = question.get("converter") + " " + question.get("config");
        Object found = CONVERTERS.get(key);
        if (found == null) {
            found = Class.forName(question.get("converter").asText()).getDeclaredConstructor().newInstance();
            Map<String, String> config = new HashMap<>();
            question.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
            if (found instanceof Converter of)
                of.configure(config, false);
            else
                ((HeaderConverter) found).configure(config);
            CONVERTERS.put(key, found);
        }
        return found;
    }

    static Schema schema(JsonNode given) {
        if (given == null || given.isNull())
            return null;
        Schema.Type type = Schema.Type.valueOf(given.get("type").asText());
        SchemaBuilder made = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(given.get("items")));
            case MAP -> SchemaBuilder.map(schema(given.get("keys")), schema(given.get("values")));
            default -> SchemaBuilder.type(type);
        };
        if (type == Schema.Type.STRUCT)
            given.get("fields").forEach(each -> made.field(each.get(0).asText(), schema(each.get(1))));
        if (given.get("optional").asBoolean())
            made.optional();
        if (given.has("name"))
            made.name(given.get("name").asText());
        if (given.has("version"))
            made.version(given.get("version").asInt());
        if (given.has("doc"))
            made.doc(given.get("doc").asText());
        if (given.has("parameters"))
            given.get("parameters").properties()
                .forEach(each -> made.parameter(each.getKey(), each.getValue().asText()));
        if (given.has("default"))
            made.defaultValue(value(given.get("default")));
        return made.build();
    }

    static Object value(JsonNode given) {
        if (given.isNull())
            return null;
        JsonNode content = given.get(1);
        switch (given.get(0).asText()) {
            case "int8":
                return (byte) content.intValue();
            case "int16":
                return (short) content.intValue();
            case "int32":
                return content.intValue();
            case "int64":
                return content.longValue();
            case "float32":
                return Float.intBitsToFloat(Integer.parseUnsignedInt(content.asText(), 16));
            case "float64":
                return Double.longBitsToDouble(Long.parseUnsignedLong(content.asText(), 16));
            case "boolean":
                return content.booleanValue();
            case "string":
                return content.textValue();
            case "bytes":
                return Base64.getDecoder().decode(content.asText());
            case "decimal":
                return new BigDecimal(new BigInteger(content.get(0).asText()), content.get(1).intValue());
            case "date":
            case "time":
            case "timestamp":
                return new java.util.Date(content.longValue());
            case "list":
                List<Object> list = new ArrayList<>();
                content.forEach(each -> list.add(value(each)));
                return list;
            case "map":
                Map<Object, Object> map = new LinkedHashMap<>();
                content.forEach(each -> map.put(value(each.get(0)), value(each.get(1))));
                return map;
            default:
                Struct struct = new Struct(schema(content));
                for (Field field : struct.schema().fields())
                    if (!given.get(2).get(field.index()).isNull())
                        struct.put(field, value(given.get(2).get(field.index())));
                return struct;
        }
    }

    static Object shown(SchemaAndValue found) {
        List<Object> both = new ArrayList<>();
        both.add(shown(found == null ? null : found.schema()));
        both.add(shown(found == null ? null : found.value()));
        return both;
    }

    static Map<String, Object> shown(Schema schema) {
        if (schema == null)
            return null;
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("type", schema.type().name());
        shown.put("optional", schema.isOptional());
        if (schema.name() != null)
            shown.put("name", schema.name());
        if (schema.version() != null)
            shown.put("version", schema.version());
        if (schema.doc() != null)
            shown.put("doc", schema.doc());
        if (schema.parameters() != null)
            shown.put("parameters", schema.parameters());
        if (schema.defaultValue() != null)
            shown.put("default", shown(schema.defaultValue()));
        if (schema.type() == Schema.Type.ARRAY)
            shown.put("items", shown(schema.valueSchema()));
        if (schema.type() == Schema.Type.MAP) {
            shown.put("keys", shown(schema.keySchema()));
            shown.put("values", shown(schema.valueSchema()));
        }
        if (schema.type() == Schema.Type.STRUCT)
            shown.put("fields", schema.fields().stream().map(each -> List.of(each.name(), shown(each.schema()))).toList());
        return shown;
    }

    static Object shown(Object value) {
        if (value == null)
            return null;
        if (value instanceof Float || value instanceof Double)
            return List.of("float", Long.toHexString(Double.doubleToLongBits(((Number) value).doubleValue())));
        if (value instanceof BigDecimal decimal)
            return List.of("decimal", List.of(decimal.unscaledValue().toString(), decimal.scale()));
        if (value instanceof Number number)
            return List.of("int", number.longValue());
        if (value instanceof Boolean)
            return List.of("boolean", value);
        if (value instanceof String)
            return List.of("string", value);
        if (value instanceof byte[] bytes)
            return List.of("bytes", Base64.getEncoder().encodeToString(bytes));
        if (value instanceof ByteBuffer buffer)
            return List.of("bytes", Base64.getEncoder().encodeToString(buffer.array()));
        if (value instanceof java.util.Date date)
            return List.of("moment", date.getTime());
        if (value instanceof List<?> list)
            return List.of("list", list.stream().map(KafkaConverters::shown).toArray());
        if (value instanceof Map<?, ?> map) {
            List<Object> entries = new ArrayList<>();
            map.forEach((key, each) -> {
                List<Object> entry = new ArrayList<>();
                entry.add(shown(key));
                entry.add(shown(each));
                entries.add(entry);
            });
            return List.of("map", entries);
        }
        Struct struct = (Struct) value;
        List<Object> values = new ArrayList<>();
        struct.schema().fields().forEach(each -> values.add(shown(struct.getWithoutDefault(each.name()))));
        return List.of("struct", shown(struct.schema()), values);
    }
}
