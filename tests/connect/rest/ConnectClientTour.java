import java.util.Map;
import java.util.TreeMap;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.InvalidRequestException;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.ResourceNotFoundException;

/** Asks the worker at the URL of its argument for everything that the client can ask for, and prints the answers. */
public class ConnectClientTour {
    public static void main(String[] arguments) {
        KafkaConnectClient client = new KafkaConnectClient(new Configuration(arguments[0]));
        System.out.println(client.getConnectServerVersion().getVersion());
        System.out.println(client.addConnector(NewConnectorDefinition.newBuilder().withName("a b")
            .withConfig("connector.class", "FileStreamSource").withConfig("tasks.max", 1).build()).getType());
        System.out.println(client.getConnectors());
        System.out.println(client.getConnector("a b").getTasks().size());
        System.out.println(new TreeMap<>(client.getConnectorConfig("a b")));
        System.out.println(client.getConnectorStatus("a b").getConnector().get("state"));
        System.out.println(client.getConnectorTaskStatus("a b", 0).getState());
        System.out.println(client.getConnectorTasks("a b").iterator().next().getId().getTask());
        System.out.println(client.getConnectorTopics("a b").getTopics());
        System.out.println(client.resetConnectorTopics("a b"));
        System.out.println(client.getConnectorsWithAllExpandedMetadata().getDefinitionForConnector("a b").getName());
        System.out.println(client.getConnectorsWithExpandedStatus().getAllStatuses().size());
        System.out.println(new TreeMap<>(client.updateConnectorConfig("a b",
            Map.of("connector.class", "FileStreamSource", "x", "y")).getConfig()));
        System.out.println(client.pauseConnector("a b") && client.resumeConnector("a b"));
        System.out.println(client.restartConnector("a b"));
        System.out.println(client.restartConnector(new PostConnectorRestart("a b").withIncludeTasks(true)));
        System.out.println(client.restartConnectorTask("a b", 0));
        System.out.println(client.getConnectorPlugins().size());
        System.out.println(client.validateConnectorPluginConfig(ConnectorPluginConfigDefinition.newBuilder()
            .withName("FileStreamSource").withConfig("connector.class", "FileStreamSource").build()).getErrorCount());
        System.out.println(client.deleteConnector("a b"));
        try {
            client.getConnector("a b");
        } catch (ResourceNotFoundException error) {
            System.out.println(error.getMessage());
        }
        try {
            client.addConnector(NewConnectorDefinition.newBuilder().withName("c").withConfig("x", "y").build());
        } catch (InvalidRequestException error) {
            System.out.println(error.getErrorCode() + " " + error.getMessage());
        }
    }
}
