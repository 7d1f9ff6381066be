import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/**
 * Apache Kafka's KerberosShortNamer. A line of the input has the default realm, a principal, and rules, separated by
 * tabs, each text in hexadecimal digits. The answer is the kind of the outcome and its text.
 */
public class KafkaShortNames {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words = List.of(line.split("\t", -1)).stream().map(KafkaShortNames::text).toList();
            out.append(answer(words.get(0), words.get(1), words.subList(2, words.size()))).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String realm, String principal, List<String> rules) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(realm, rules);
        } catch (IllegalArgumentException invalid) {
            return "rules\t" + hex(invalid.getMessage());
        }
        try {
            return "short\t" + hex(namer.shortName(KerberosName.parse(principal)));
        } catch (IllegalArgumentException malformed) {
            return "name\t" + hex(malformed.getMessage());
        } catch (Exception none) {
            return "none\t" + hex(none.getMessage());
        }
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
    }
}
