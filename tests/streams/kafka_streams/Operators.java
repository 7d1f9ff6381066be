import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs topologies of Kafka Streams on records and prints what they write.
 *
 * Reads a file of cases: a line "case TAB topology", then a record a line, "topic TAB key TAB value TAB timestamp"
 * (\N is null). Prints the same lines with the output records, or "error TAB class TAB message" where a case fails.
 */
public class Operators {
    static Duration ms(long ms) {
        return Duration.ofMillis(ms);
    }

    static void windowed(KTable<Windowed<String>, ?> table) {
        table.toStream()
            .map((w, v) -> KeyValue.pair(w.key() + "@" + w.window().start() + "/" + w.window().end(), v == null ? null : v.toString()))
            .to("out");
    }

    static void table(KTable<String, String> table) {
        table.toStream().to("out");
    }

    static KTable<String, String> versioned(StreamsBuilder b) {
        return b.table("right", Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("versions", ms(1000))));
    }

    static KTable<String, String> suppressible(StreamsBuilder b) {
        return b.table("left", Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("left-store"));
    }

    static final ValueJoiner<String, String, String> JOIN = (a, c) -> a + "+" + c;

    /** The foreign key of a row: what is before the first colon, and none where that is "x". */
    static String foreignKey(String value) {
        String key = value.split(":")[0];
        return key.equals("x") ? null : key;
    }

    static StreamsBuilder build(String name) {
        StreamsBuilder b = new StreamsBuilder();
        switch (name) {
            case "tumbling" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).count());
            case "hopping" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(7)).advanceBy(ms(4))).reduce((x, y) -> x + y));
            case "sliding" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(8))).reduce((x, y) -> x + y));
            case "sliding-never-late" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(600_000))).reduce((x, y) -> x + y));
            case "sessions" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(9))).reduce((x, y) -> x + y));
            case "tumbling-close" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).emitStrategy(EmitStrategy.onWindowClose()).reduce((x, y) -> x + y));
            case "hopping-close" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)).advanceBy(ms(4))).emitStrategy(EmitStrategy.onWindowClose()).reduce((x, y) -> x + y));
            case "sliding-close" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(5))).emitStrategy(EmitStrategy.onWindowClose()).reduce((x, y) -> x + y));
            case "sessions-close" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).emitStrategy(EmitStrategy.onWindowClose()).reduce((x, y) -> x + y));
            case "suppress-close" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).reduce((x, y) -> x + y, Materialized.with(Serdes.String(), Serdes.String()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())));
            case "suppress-sessions" -> windowed(b.<String, String>stream("left").groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).reduce((x, y) -> x + y, Materialized.with(Serdes.String(), Serdes.String()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())));
            case "suppress-time" -> table(suppressible(b)
                .suppress(Suppressed.untilTimeLimit(ms(10), Suppressed.BufferConfig.unbounded())));
            case "suppress-rows" -> table(suppressible(b)
                .suppress(Suppressed.untilTimeLimit(ms(50), Suppressed.BufferConfig.maxRecords(2))));
            case "suppress-grouped" -> table(suppressible(b)
                .suppress(Suppressed.untilTimeLimit(ms(10), Suppressed.BufferConfig.unbounded()))
                .groupBy((k, v) -> KeyValue.pair("all", v))
                .aggregate(() -> "", (k, v, text) -> text + "+" + v, (k, v, text) -> text + "-" + v));
            case "stream-inner" -> b.<String, String>stream("left").join(b.<String, String>stream("right"), JOIN,
                JoinWindows.ofTimeDifferenceAndGrace(ms(10), ms(6))).to("out");
            case "stream-left" -> b.<String, String>stream("left").leftJoin(b.<String, String>stream("right"), JOIN,
                JoinWindows.ofTimeDifferenceWithNoGrace(ms(10))).to("out");
            case "stream-outer" -> b.<String, String>stream("left").outerJoin(b.<String, String>stream("right"), JOIN,
                JoinWindows.ofTimeDifferenceWithNoGrace(ms(10))).to("out");
            case "stream-outer-grace" -> b.<String, String>stream("left").outerJoin(b.<String, String>stream("right"), JOIN,
                JoinWindows.ofTimeDifferenceAndGrace(ms(10), ms(8))).to("out");
            case "stream-before" -> b.<String, String>stream("left").join(b.<String, String>stream("right"), JOIN,
                JoinWindows.ofTimeDifferenceWithNoGrace(ms(10)).after(ms(0))).to("out");
            case "stream-table" -> b.<String, String>stream("left").join(b.<String, String>table("right"), JOIN).to("out");
            case "stream-table-left" -> b.<String, String>stream("left").leftJoin(b.<String, String>table("right"), JOIN).to("out");
            case "stream-versioned" -> b.<String, String>stream("left").leftJoin(versioned(b), JOIN).to("out");
            case "stream-versioned-grace" -> b.<String, String>stream("left").leftJoin(versioned(b), JOIN,
                Joined.<String, String, String>with(Serdes.String(), Serdes.String(), Serdes.String()).withGracePeriod(ms(10))).to("out");
            case "table-inner" -> table(b.<String, String>table("left").join(b.table("right"), JOIN));
            case "table-left" -> table(b.<String, String>table("left").leftJoin(b.table("right"), JOIN));
            case "table-outer" -> table(b.<String, String>table("left").outerJoin(b.table("right"), JOIN));
            case "table-grouped" -> table(b.<String, String>table("left").outerJoin(b.table("right"), JOIN)
                .groupBy((k, v) -> KeyValue.pair("all", v)).reduce((x, y) -> x + "," + y, (x, y) -> x + "-" + y));
            case "foreign" -> table(b.<String, String>table("left").join(b.<String, String>table("right"), Operators::foreignKey, JOIN));
            case "foreign-left" -> table(b.<String, String>table("left").leftJoin(b.<String, String>table("right"), Operators::foreignKey, JOIN));
            case "global" -> b.<String, String>stream("left").join(b.<String, String>globalTable("right"), (k, v) -> foreignKey(v), JOIN).to("out");
            case "global-left" -> b.<String, String>stream("left").leftJoin(b.<String, String>globalTable("right"), (k, v) -> foreignKey(v), JOIN).to("out");
            default -> throw new IllegalArgumentException(name);
        }
        return b;
    }

    static Properties config(Path state) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // Otherwise results that are due are sent at most once a second of the time of day, which stands still here.
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        return config;
    }

    static String shown(String text) {
        return text == null ? "\\N" : text;
    }

    static String read(String text) {
        return text.equals("\\N") ? null : text;
    }

    public static void main(String[] arguments) throws Exception {
        Path state = Path.of(arguments[1]);
        TopologyTestDriver driver = null;
        StringBuilder out = new StringBuilder();
        boolean failed = false;
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        for (int i = 0; i <= lines.size(); i++) {
            String[] words = i < lines.size() ? lines.get(i).split("\t") : new String[] {"case", null};
            if (words[0].equals("case")) {
                if (driver != null) {
                    if (!failed) {
                        for (TestRecord<String, String> r : driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer()).readRecordsToList())
                            out.append("out\t" + shown(r.key()) + "\t" + shown(r.value()) + "\t" + r.timestamp() + "\n");
                    }
                    driver.close();
                }
                if (words[1] == null)
                    break;
                out.append("case\t" + words[1] + "\n");
                failed = false;
                Topology topology = build(words[1]).build();
                out.append("plan\t" + topology.describe().toString().replace("\n", "\\n") + "\n");
                driver = new TopologyTestDriver(topology, config(state.resolve("case" + i)), Instant.ofEpochMilli(0));
            } else if (!failed) {
                try {
                    driver.createInputTopic(words[0], new StringSerializer(), new StringSerializer())
                        .pipeInput(read(words[1]), read(words[2]), Long.parseLong(words[3]));
                } catch (RuntimeException error) {
                    out.append("error\t" + error.getClass().getSimpleName() + "\t" + error.getMessage() + "\n");
                    failed = true;
                }
            }
        }
        System.out.print(out);
    }
}
