import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Answers a line of JSON with a line: how Avro's own library prints schemas, and what it finds between two. */
public class AvroOracle {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private static Schema parse(JsonNode text, JsonNode references, List<Schema> known) {
    Schema.Parser parser = new Schema.Parser(NameValidator.STRICT_VALIDATOR);
    for (JsonNode reference : references) {
      known.add(parser.parse(reference.textValue()));
    }
    return parser.parse(text.textValue());
  }

  private static void answer(JsonNode question, ObjectNode answer) {
    List<Schema> known = new ArrayList<>();
    Schema reader = parse(question.get("reader"), question.path("references"), known);
    answer.put("printed", reader.toString(known, false));
    answer.put("resolved", reader.toString());
    if (question.has("writer")) {
      Schema writer = parse(question.get("writer"), question.path("references"), new ArrayList<>());
      ArrayNode found = answer.putArray("found");
      for (SchemaCompatibility.Incompatibility each :
          SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
        found.addArray().add(each.getType().name()).add(each.getLocation()).add(each.getMessage());
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer = MAPPER.createObjectNode();
      try {
        answer(MAPPER.readTree(line), answer);
      } catch (RuntimeException error) {
        answer.put("error", String.valueOf(error.getMessage()));
      }
      System.out.write((MAPPER.writeValueAsString(answer) + "\n").getBytes("UTF-8"));
      System.out.flush();
    }
  }
}
