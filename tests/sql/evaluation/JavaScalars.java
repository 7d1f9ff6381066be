import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.commons.lang3.StringEscapeUtils;
import org.apache.commons.lang3.StringUtils;

/** Answers each line, two strings or two doubles, with what the classes that ksqlDB calls make of them. */
@SuppressWarnings("deprecation")
public final class JavaScalars {
  private static final ObjectMapper MAPPER =
      new ObjectMapper().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
  private static final Pattern WORD = Pattern.compile("\\S+\\s*");

  public static void main(String[] arguments) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode given = MAPPER.readTree(line);
      out.println(MAPPER.writeValueAsString(given.has("text") ? ofTexts(given) : ofDoubles(given)));
    }
  }

  private static Map<String, Object> ofTexts(JsonNode given) {
    String text = given.get("text").textValue();
    String other = given.get("other").textValue();
    int position = given.get("position").intValue();
    int count = given.get("count").intValue();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("LEN", result(text::length));
    answer.put("UCASE", result(text::toUpperCase));
    answer.put("LCASE", result(text::toLowerCase));
    answer.put("TRIM", result(text::trim));
    answer.put("INITCAP", result(() -> capitalized(text)));
    answer.put("REPLACE", result(() -> text.replace(other, "<>")));
    answer.put("SPLIT", result(() -> List.of(Pattern.compile("").split(text))));
    answer.put("INSTR", result(() -> place(text, other, position, count)));
    answer.put("SUBSTRING", result(() -> text.substring(Math.min(count, text.length()))));
    answer.put("RPAD", result(() -> padded(text, other, count)));
    answer.put("MASK", result(() -> kinds(text)));
    answer.put("CHR", result(() -> StringEscapeUtils.unescapeJava("\\u0041" + text)));
    answer.put("utf8", result(() -> text.getBytes(StandardCharsets.UTF_8)));
    answer.put("ascii", result(() -> text.getBytes(StandardCharsets.US_ASCII)));
    answer.put("base64", result(() -> Base64.getDecoder().decode(text)));
    answer.put("lenient base64", result(() -> lenient(text)));
    answer.put("of utf8", result(() -> recoded(text, StandardCharsets.UTF_8)));
    answer.put("of ascii", result(() -> recoded(text, StandardCharsets.US_ASCII)));
    return answer;
  }

  private static String capitalized(String text) {
    return WORD.matcher(text.toLowerCase())
        .results()
        .map(word -> word.group().substring(0, 1).toUpperCase() + word.group().substring(1))
        .collect(Collectors.joining());
  }

  private static int place(String text, String other, int position, int count) {
    if (position == 0 || Math.abs(position) > text.length()) {
      return 0;
    }
    String searched = position > 0 ? text : StringUtils.reverse(text);
    String wanted = position > 0 ? other : StringUtils.reverse(other);
    int at = StringUtils.ordinalIndexOf(searched.substring(Math.abs(position) - 1), wanted, count);
    int before = Math.abs(position) - 1 + at;
    return at < 0 ? 0 : position > 0 ? before + 1 : text.length() - before - wanted.length() + 1;
  }

  private static String padded(String text, String other, int count) {
    var padded = new StringBuilder(text);
    while (padded.length() < count && !other.isEmpty()) {
      padded.append(other);
    }
    padded.setLength(Math.min(count, padded.length()));
    return padded.toString();
  }

  /** U, l, d or - for each code unit, by the kind of the character that begins there. */
  private static String kinds(String text) {
    var kinds = new StringBuilder();
    for (int at = 0; at < text.length(); at++) {
      int type = Character.getType(text.codePointAt(at));
      kinds.append(
          type == Character.UPPERCASE_LETTER ? 'U'
              : type == Character.LOWERCASE_LETTER ? 'l'
              : type == Character.DECIMAL_DIGIT_NUMBER ? 'd' : '-');
    }
    return kinds.toString();
  }

  private static byte[] lenient(String text) {
    return org.apache.commons.codec.binary.Base64.decodeBase64(text);
  }

  private static String recoded(String text, Charset charset) {
    return new String(text.getBytes(StandardCharsets.ISO_8859_1), charset);
  }

  private static Map<String, Object> ofDoubles(JsonNode given) {
    double one = Double.longBitsToDouble(given.get("one").longValue());
    double other = Double.longBitsToDouble(given.get("other").longValue());
    int places = given.get("places").intValue();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("CBRT", bits(Math.cbrt(one)));
    answer.put("SINH", bits(Math.sinh(one)));
    answer.put("SIN", bits(Math.sin(one)));
    answer.put("COT", bits(1 / Math.tan(one)));
    answer.put("EXP", bits(Math.exp(one)));
    answer.put("LN", bits(Math.log(one)));
    answer.put("ACOS", bits(Math.acos(one)));
    answer.put("TANH", bits(Math.tanh(one)));
    answer.put("DEGREES", bits(Math.toDegrees(one)));
    answer.put("RADIANS", bits(Math.toRadians(one)));
    answer.put("SQRT", bits(Math.sqrt(one)));
    answer.put("POWER", bits(Math.pow(one, other)));
    answer.put("ATAN2", bits(Math.atan2(one, other)));
    answer.put("CEIL", bits(Math.ceil(one)));
    answer.put("FLOOR", bits(Math.floor(one)));
    answer.put("ABS", bits(Math.abs(one)));
    answer.put("SIGN", (int) Math.signum(one));
    answer.put("ROUND", Math.round(one));
    answer.put("TRUNC", (long) one);
    answer.put("NULLIF", Double.valueOf(one).equals(other));
    RoundingMode halvesUp = one > 0 ? RoundingMode.HALF_UP : RoundingMode.HALF_DOWN;
    answer.put("ROUND places", result(() -> bits(rounded(one, places, halvesUp))));
    answer.put("TRUNC places", result(() -> bits(rounded(one, places, RoundingMode.DOWN))));
    return answer;
  }

  private static double rounded(double value, int places, RoundingMode mode) {
    return shortest(value).setScale(places, mode).doubleValue();
  }

  /**
   * The decimal of the fewest digits that is read as the value, which BigDecimal.valueOf returns since
   * JDK 19. Before, Double.toString writes a digit too many for some values (JDK-4511638).
   */
  private static BigDecimal shortest(double value) {
    BigDecimal exact = new BigDecimal(value);
    for (int digits = 1; ; digits++) {
      BigDecimal decimal = exact.round(new MathContext(digits));
      if (decimal.doubleValue() == value) {
        return decimal;
      }
    }
  }

  private static long bits(double value) {
    return Double.doubleToLongBits(value);
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
