import java.io.BufferedReader;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

/**
 * Apache Kafka's BrokerJwtValidator. Argument: a file with lines of words between tabs. "rules" configures: URL of the
 * keys, issuer, clock skew, names of the claims for scopes and principal, and the audiences. "token" is answered by a
 * line: "accepted", principal, end and scopes; or "refused" and the reason; or "failed" for another exception.
 * "unsecured" is a token for OAuthBearerUnsecuredValidatorCallbackHandler, with options after it. "message" is the
 * first message of a client, in hexadecimal digits: the answer has the authorization id and the token.
 */
public class KafkaTokens {
    public static void main(String[] arguments) throws Exception {
        BrokerJwtValidator validator = null;
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t", -1);
                if (words[0].equals("rules"))
                    validator = validator(words);
                else if (words[0].equals("unsecured"))
                    System.out.println(unsecured(words));
                else if (words[0].equals("message"))
                    System.out.println(message(HexFormat.of().parseHex(words[1])));
                else
                    System.out.println(answer(validator, words[1]));
            }
        }
    }

    private static BrokerJwtValidator validator(String[] words) {
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", words[1]);
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.jwks.endpoint.url", words[1]);
        configs.put("sasl.oauthbearer.expected.issuer", words[2]);
        configs.put("sasl.oauthbearer.clock.skew.seconds", Integer.valueOf(words[3]));
        configs.put("sasl.oauthbearer.scope.claim.name", words[4]);
        configs.put("sasl.oauthbearer.sub.claim.name", words[5]);
        configs.put("sasl.oauthbearer.expected.audience", List.of(words).subList(6, words.length));
        BrokerJwtValidator validator = new BrokerJwtValidator();
        validator.configure(configs, "OAUTHBEARER", List.of(entry(Map.of())));
        return validator;
    }

    private static String unsecured(String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 2; i + 1 < words.length; i += 2)
            options.put(words[i], words[i + 1]);
        var handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Map.of(), "OAUTHBEARER", List.of(entry(options)));
        var callback = new OAuthBearerValidatorCallback(words[1]);
        try {
            handler.handle(new Callback[] {callback});
        } catch (RuntimeException e) {
            return "failed\t" + e.toString().replaceAll("[^ -~]", "?");
        }
        if (callback.token() != null)
            return accepted(callback.token());
        return "refused\t" + callback.errorStatus() + "\t" + callback.errorScope();
    }

    private static String message(byte[] bytes) {
        try {
            var message = new OAuthBearerClientInitialResponse(bytes);
            String name = HexFormat.of().formatHex(message.authorizationId().getBytes(StandardCharsets.UTF_8));
            return "accepted\t" + name + "\t" + message.tokenValue();
        } catch (SaslException | RuntimeException e) {
            return "refused";
        }
    }

    private static String accepted(OAuthBearerToken token) {
        List<String> words = new ArrayList<>(List.of("accepted", token.principalName(), "" + token.lifetimeMs()));
        words.addAll(new TreeSet<>(token.scope()));
        return String.join("\t", words);
    }

    private static AppConfigurationEntry entry(Map<String, String> options) {
        var required = AppConfigurationEntry.LoginModuleControlFlag.REQUIRED;
        return new AppConfigurationEntry(OAuthBearerLoginModule.class.getName(), required, options);
    }

    private static String answer(BrokerJwtValidator validator, String text) {
        try {
            return accepted(validator.validate(text));
        } catch (JwtValidatorException e) {
            return "refused\t" + e.getMessage().replaceAll("[^ -~]", "?");
        } catch (RuntimeException e) {
            return "failed\t" + e.toString().replaceAll("[^ -~]", "?");
        }
    }
}
