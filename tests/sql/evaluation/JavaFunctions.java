import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** Answers each line, a text as a JSON string, with what Java's classes and Jackson make of it. */
public final class JavaFunctions {
  private static final ObjectMapper MAPPER =
      new ObjectMapper()
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(JsonGenerator.Feature.WRITE_BIGDECIMAL_AS_PLAIN)
          .setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));

  public static void main(String[] arguments) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      out.println(MAPPER.writeValueAsString(answer(MAPPER.readValue(line, String.class))));
    }
  }

  private static Map<String, Object> answer(String text) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("protocol", result(() -> new URI(text).getScheme()));
    answer.put("host", result(() -> new URI(text).getHost()));
    answer.put("port", result(() -> port(new URI(text))));
    answer.put("path", result(() -> new URI(text).getPath()));
    answer.put("query", result(() -> new URI(text).getQuery()));
    answer.put("fragment", result(() -> new URI(text).getFragment()));
    answer.put("decoded", result(() -> URLDecoder.decode(text, StandardCharsets.UTF_8)));
    answer.put("encoded", result(() -> URLEncoder.encode(text, StandardCharsets.UTF_8)));
    answer.put("json", result(() -> shown(MAPPER.reader().readTree(text))));
    answer.put("plain", result(() -> plain(MAPPER.reader().readTree(text))));
    return answer;
  }

  private static Integer port(URI uri) {
    return uri.getPort() < 0 ? null : uri.getPort();
  }

  private static String shown(JsonNode node) {
    return node.isTextual() ? node.textValue() : node.toString();
  }

  private static String plain(JsonNode node) throws Exception {
    return node.isMissingNode() ? null : MAPPER.writeValueAsString(node);
  }

  /** The result, or "refused" in place of an exception. */
  private static Object result(Callable<Object> call) {
    try {
      return call.call();
    } catch (Exception error) {
      return "refused";
    }
  }
}
