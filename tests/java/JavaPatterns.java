import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Answers each line, a list of pattern, text and replacement in JSON, with what Java's classes find. */
public final class JavaPatterns {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode asked = MAPPER.readTree(line);
      String pattern = asked.get(0).textValue();
      String text = asked.get(1).textValue();
      String replacement = asked.get(2).textValue();
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("found", result(() -> found(Pattern.compile(pattern).matcher(text))));
      answer.put("replaced", result(() -> text.replaceAll(pattern, replacement)));
      answer.put("split", result(() -> Arrays.asList(Pattern.compile(pattern).split(text))));
      out.println(MAPPER.writeValueAsString(answer));
    }
  }

  /** All groups of all matches. */
  private static List<List<String>> found(Matcher matcher) {
    List<List<String>> all = new ArrayList<>();
    while (matcher.find()) {
      List<String> groups = new ArrayList<>();
      for (int number = 0; number <= matcher.groupCount(); number++) {
        groups.add(matcher.group(number));
      }
      all.add(groups);
    }
    return all;
  }

  /** The result, or "refused" in place of an exception. */
  private static Object result(Callable<Object> call) {
    try {
      return call.call();
    } catch (RuntimeException | StackOverflowError error) {
      return "refused";
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
