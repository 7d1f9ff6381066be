import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Width;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;

/**
 * Kafka's ConfigDef. Argument: a file with a definition and a configuration a line, as JSON. The answers are the keys,
 * the parsed values and the results of validation, as JSON, or the message of an error.
 */
public class KafkaConfigDef {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            answers.append(JSON.writeValueAsString(answer(JSON.readTree(line)))).append('\n');
        System.out.print(answers);
    }

    static Map<String, Object> answer(JsonNode question) {
        Map<String, Object> answer = new TreeMap<>();
        ConfigDef definition = new ConfigDef();
        try {
            question.get("keys").forEach(key -> define(definition, key));
        } catch (ConfigException refused) {
            answer.put("refused", refused.getMessage());
            return answer;
        }
        ConfigDef asked = definition;
        if (!question.get("prefix").isNull()) {
            asked = new ConfigDef();
            asked.embed(question.get("prefix").asText(), "Embedded", 3, definition);
        }
        Map<String, String> properties = new TreeMap<>();
        question.get("properties").properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        answer.put("groups", asked.groups());
        answer.put("keys", asked.configKeys().values().stream().map(KafkaConfigDef::shown).toList());
        try {
            Map<String, String> parsed = new TreeMap<>();
            asked.parse(properties).forEach((name, value) -> parsed.put(name, text(value)));
            answer.put("parsed", parsed);
        } catch (ConfigException refused) {
            answer.put("parsed", refused.getMessage());
        }
        Map<String, Object> validated = new TreeMap<>();
        for (ConfigValue value : asked.validate(properties))
            validated.put(value.name(), List.of(text(value.value()), value.errorMessages(),
                value.recommendedValues(), value.visible()));
        answer.put("validated", validated);
        return answer;
    }

    static String text(Object value) {
        return value instanceof Class<?> loaded ? loaded.getName() : String.valueOf(value);
    }

    static List<String> shown(ConfigDef.ConfigKey key) {
        String standard = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "required";
        return List.of(key.name, key.type.name(), String.valueOf(standard), String.valueOf(key.validator),
            key.importance.name(), String.valueOf(key.group), String.valueOf(key.orderInGroup), key.width.name(),
            key.displayName, String.valueOf(key.dependents));
    }

    static void define(ConfigDef definition, JsonNode key) {
        Object standard = ConfigDef.NO_DEFAULT_VALUE;
        if (key.has("default"))
            standard = key.get("default").isNull() ? null : key.get("default").asText();
        definition.define(key.get("name").asText(), Type.valueOf(key.get("type").asText()), standard,
            validator(key.get("validator")), Importance.valueOf(key.get("importance").asText()), "",
            key.get("group").isNull() ? null : key.get("group").asText(), key.get("order").asInt(),
            Width.valueOf(key.get("width").asText()), key.get("display_name").asText(), texts(key.get("dependents")),
            key.get("recommender").isNull() ? null : new Recommending(key.get("recommender")));
    }

    static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(each -> texts.add(each.asText()));
        return texts;
    }

    static Number number(JsonNode number) {
        return number.numberValue();
    }

    static ConfigDef.Validator validator(JsonNode given) {
        if (given.isNull())
            return null;
        JsonNode arguments = given.get(1);
        String[] texts = arguments.isArray() ? texts(arguments).toArray(new String[0]) : null;
        switch (given.get(0).asText()) {
            case "at_least": return ConfigDef.Range.atLeast(number(arguments.get(0)));
            case "between": return ConfigDef.Range.between(number(arguments.get(0)), number(arguments.get(1)));
            case "string": return ConfigDef.ValidString.in(texts);
            case "any_case": return ConfigDef.CaseInsensitiveValidString.in(texts);
            case "list": return ConfigDef.ValidList.in(given.get(2).asBoolean(), texts);
            case "any_list":
                return ConfigDef.ValidList.anyNonDuplicateValues(given.get(2).asBoolean(), given.get(3).asBoolean());
            case "non_null": return new ConfigDef.NonNullValidator();
            case "non_empty": return new ConfigDef.NonEmptyString();
            case "no_controls": return new ConfigDef.NonEmptyStringWithoutControlChars();
            case "size": return ConfigDef.ListSize.atMostOfSize(arguments.get(0).asInt());
            case "both": return ConfigDef.CompositeValidator.of(validator(arguments.get(0)), validator(arguments.get(1)));
            default: throw new IllegalArgumentException(given.toString());
        }
    }

    record Recommending(JsonNode given) implements ConfigDef.Recommender {
        @Override
        public List<Object> validValues(String name, Map<String, Object> parsed) {
            if (given.get("fails").asBoolean())
                throw new ConfigException(name, parsed.size(), "refused by its recommender");
            return new ArrayList<>(texts(given.get("values")));
        }

        @Override
        public boolean visible(String name, Map<String, Object> parsed) {
            return parsed.get(given.get("visible_with").asText()) != null;
        }
    }
}
