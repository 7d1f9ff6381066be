import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.transport.Netty4Plugin;

/** One node of Elasticsearch. Its argument is a directory for data; it prints its HTTP port once it is ready. */
public final class ElasticsearchNode extends Node {
    private ElasticsearchNode(Settings settings) {
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
        ElasticsearchNode node = new ElasticsearchNode(settings);
        node.start();
        int port =
                node.injector()
                        .getInstance(org.elasticsearch.http.HttpServerTransport.class)
                        .boundAddress()
                        .publishAddress()
                        .getPort();
        System.out.println("ready " + port);
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
