import java.io.BufferedReader;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Java's names of certificates, and Apache Kafka's rules that rewrite names. The argument names a file with a
 * command a line, whose words are separated by tabs. Bytes and texts (UTF-8) are hexadecimal, also in the answers.
 *
 * name DER: the text of a distinguished name
 * same DER DER: whether two distinguished names are equal
 * map RULES NAME: what the rules make of a name, "no rule" if none matches, "refused" for any other error
 */
public class KafkaPrincipals {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.append(answer(line.split("\t", -1))).append('\n');
            }
        }
        System.out.print(out);
    }

    private static String answer(String[] words) {
        return switch (words[0]) {
            case "name" -> hex(new X500Principal(HEX.parseHex(words[1])).getName());
            case "same" -> String.valueOf(
                new X500Principal(HEX.parseHex(words[1])).equals(new X500Principal(HEX.parseHex(words[2]))));
            default -> mapped(text(words[1]), text(words[2]));
        };
    }

    private static String mapped(String rules, String name) {
        try {
            return "=" + hex(SslPrincipalMapper.fromRules(rules).getName(name));
        } catch (SslPrincipalMapper.NoMatchingRule error) {
            return "no rule";
        } catch (Exception error) {
            return "refused";
        }
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
