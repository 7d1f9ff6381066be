import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One node of OpenSearch. Its argument is a directory for data; it prints its HTTP port once it is ready. */
public final class OpenSearchNode extends Node {
    private OpenSearchNode(Settings settings) {
        super(
                InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test"),
                List.of(Netty4Plugin.class),
                false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings =
                Settings.builder()
                        .put("path.home", Path.of(arguments[0]).toString())
                        .put("network.host", "127.0.0.1")
                        .put("http.port", arguments[1])
                        .put("transport.port", "0")
                        .put("discovery.type", "single-node")
                        .put("node.processors", 1)
                        .put("cluster.routing.allocation.disk.threshold_enabled", false)
                        .build();
        OpenSearchNode node = new OpenSearchNode(settings);
        node.start();
        int port =
                node.injector()
                        .getInstance(org.opensearch.http.HttpServerTransport.class)
                        .boundAddress()
                        .publishAddress()
                        .getPort();
        System.out.println("ready " + port);
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
