import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.List;
import java.util.TimeZone;

/**
 * SimpleDateFormat in UTC. Arguments: a file of questions and one for their answers. A question is the word format or
 * parse, a pattern, and a number or a text, with patterns and texts in hexadecimal digits.
 */
public class JavaDates {
    public static void main(String[] arguments) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", -1);
            answers.add(answer(words[0], text(words[1]), words[2]));
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    static String answer(String operation, String pattern, String argument) {
        SimpleDateFormat format;
        try {
            format = new SimpleDateFormat(pattern);
        } catch (IllegalArgumentException refused) {
            return "refused " + hex(refused.getMessage());
        }
        format.setTimeZone(TimeZone.getTimeZone("UTC"));
        if (operation.equals("format"))
            return hex(format.format(new Date(Long.parseLong(argument))));
        try {
            return Long.toString(format.parse(text(argument)).getTime());
        } catch (ParseException refused) {
            return "none";
        }
    }

    static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
