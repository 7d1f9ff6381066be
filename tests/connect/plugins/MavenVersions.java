import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.maven.artifact.versioning.DefaultArtifactVersion;
import org.apache.maven.artifact.versioning.InvalidVersionSpecificationException;
import org.apache.maven.artifact.versioning.VersionRange;

/**
 * Versions as Maven compares them. Argument: a file with a range and two versions in each line. The answers are the
 * order of the versions, and the range with whether it has each of them, or the message of an error.
 */
public class MavenVersions {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    static List<Object> answer(JsonNode question) {
        List<Object> answer = new ArrayList<>();
        DefaultArtifactVersion one = new DefaultArtifactVersion(question.get(1).asText());
        DefaultArtifactVersion other = new DefaultArtifactVersion(question.get(2).asText());
        answer.add(Integer.signum(one.compareTo(other)));
        try {
            VersionRange range = PluginUtils.connectorVersionRequirement(question.get(0).asText());
            answer.add(range == null ? null
                : List.of(range.toString(), range.containsVersion(one), range.containsVersion(other)));
        } catch (InvalidVersionSpecificationException refused) {
            answer.add(refused.getMessage());
        }
        return answer;
    }
}
