import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.TemporalAccessor;
import java.time.temporal.TemporalQueries;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.TimeZone;
import org.apache.commons.lang3.time.FastDateFormat;

/**
 * Answers each line, a function and its arguments between tabs, with "=" and the value, or with "!" if Java
 * refuses them. The functions are ksqlDB's, of times and patterns.
 */
public final class JavaTimes {
  private static final List<ChronoField> LARGEST_FIRST =
      Arrays.stream(ChronoField.values())
          .sorted(Comparator.comparing((ChronoField field) -> field.getBaseUnit().getDuration()).reversed())
          .toList();

  public static void main(String[] arguments) throws Exception {
    Locale.setDefault(Locale.US);
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      out.println(answer(line.split("\t", -1)));
    }
    out.flush();
  }

  private static String answer(String[] asked) {
    try {
      return "=" + value(asked[0], asked[1], asked[2], asked.length > 3 ? asked[3] : null);
    } catch (Exception refused) {
      return "!";
    }
  }

  private static Object value(String function, String value, String pattern, String zone) throws Exception {
    return switch (function) {
      case "FORMAT_TIMESTAMP" -> Instant.ofEpochMilli(Long.parseLong(value))
          .atZone(ZoneId.of(zone))
          .format(DateTimeFormatter.ofPattern(pattern));
      case "FORMAT_DATE" ->
          LocalDate.ofEpochDay(Long.parseLong(value)).format(DateTimeFormatter.ofPattern(pattern));
      case "FORMAT_TIME" -> LocalTime.ofNanoOfDay(Long.parseLong(value) * 1_000_000)
          .format(DateTimeFormatter.ofPattern(pattern));
      case "PARSE_TIMESTAMP" ->
          timestamp(reader(pattern).toFormatter(Locale.ROOT).parse(value), ZoneId.of(zone));
      case "PARSE_TIME" -> time(reader(pattern).toFormatter().parse(value));
      case "STRINGTODATE" -> LocalDate.parse(value, reader(pattern).toFormatter()).toEpochDay();
      case "PARSE_DATE" -> day(
          FastDateFormat.getInstance(pattern, TimeZone.getTimeZone("GMT")).parse(value).getTime());
      case "offset" -> offset(ZoneId.of(zone), Instant.ofEpochMilli(Long.parseLong(value)));
      default -> throw new IllegalArgumentException(function);
    };
  }

  private static String offset(ZoneId zone, Instant at) {
    return zone.getRules().getOffset(at).getTotalSeconds() + (zone.getRules().isDaylightSavings(at) ? "d" : "");
  }

  private static DateTimeFormatterBuilder reader(String pattern) {
    return new DateTimeFormatterBuilder().parseCaseInsensitive().appendPattern(pattern);
  }

  /** Puts each parsed field into the first of January 1970, the largest unit first. */
  private static long timestamp(TemporalAccessor parsed, ZoneId zone) {
    ZoneId parsedZone = parsed.query(TemporalQueries.zone());
    var made = ZonedDateTime.ofInstant(Instant.EPOCH, ZoneId.of("Z"))
        .withZoneSameLocal(parsedZone == null ? zone : parsedZone);
    for (ChronoField field : LARGEST_FIRST) {
      if (parsed.isSupported(field)) {
        long value = parsed.getLong(field);
        if (field == ChronoField.DAY_OF_YEAR && value == 366) {
          made = made.withYear(parsed.get(ChronoField.YEAR));
        }
        made = made.with(field, value);
      }
    }
    return made.toInstant().toEpochMilli();
  }

  private static long time(TemporalAccessor parsed) {
    if (Arrays.stream(ChronoField.values()).anyMatch(f -> f.isDateBased() && parsed.isSupported(f))) {
      throw new IllegalArgumentException("date");
    }
    return LocalTime.from(parsed).toNanoOfDay() / 1_000_000;
  }

  private static long day(long timestamp) {
    if (timestamp % 86_400_000 != 0) {
      throw new IllegalArgumentException("time");
    }
    return timestamp / 86_400_000;
  }
}
