import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Topologies by name, the same as in kafka_streams_cases.py. The file that is the argument says what to do, line by line:
 *
 *   describe                             every topology's description, after a line "=== name"
 *   case NAME                            a fresh driver
 *   pipe TOPIC KEY VALUE TIMESTAMP       a record, fields separated by tabs, ~ for null; what it caused is printed,
 *                                        topic by topic: "TOPIC KEY VALUE TIMESTAMP", key and value in hexadecimal
 */
public class Oracle {
    static final Map<String, Consumer<StreamsBuilder>> CASES = new LinkedHashMap<>();

    static {
        CASES.put("stateless", b -> {
            KStream<String, String> in = b.stream("in");
            in.filter((k, v) -> v != null && !v.equals("0"))
                .filterNot((k, v) -> v.equals("1"))
                .mapValues(v -> v + v)
                .flatMap((k, v) -> List.of(KeyValue.pair(k, v), KeyValue.pair(v, k)))
                .selectKey((k, v) -> v)
                .peek((k, v) -> { })
                .to("out");
            in.foreach((k, v) -> { });
            in.merge(b.stream("other")).flatMapValues(v -> v == null ? List.of() : List.of(v, v)).to("merged");
        });
        CASES.put("split", b -> {
            Map<String, KStream<String, String>> split = b.<String, String>stream("in")
                .split(Named.as("by-"))
                .branch((k, v) -> "0".equals(v), Branched.as("zero"))
                .branch((k, v) -> v != null && v.compareTo("3") < 0, Branched.as("small"))
                .defaultBranch(Branched.as("rest"));
            split.get("by-zero").to("zeros");
            split.get("by-small").to("small");
            split.get("by-rest").to("rest");
        });
        CASES.put("split without a name", b -> {
            Map<String, KStream<String, String>> split = b.<String, String>stream("in").split()
                .branch((k, v) -> "0".equals(v), Branched.as("-zero")).defaultBranch(Branched.as("-rest"));
            split.get("KSTREAM-BRANCH-0000000001-zero").to("zeros");
            split.get("KSTREAM-BRANCH-0000000001-rest").to("rest");
        });
        CASES.put("global table", b -> {
            b.globalTable("cities");
            b.stream("in").to("out");
        });
        CASES.put("word count", b -> b.<String, String>stream("in")
            .flatMapValues(v -> v == null ? List.of() : Arrays.asList(v, "all"))
            .groupBy((k, v) -> v).count(Materialized.as("counts")).toStream().to("out"));
        CASES.put("count", b -> b.stream("in").groupByKey().count().toStream().to("out"));
        CASES.put("named count", b -> b.stream("in").groupByKey()
            .count(Named.as("counting"), Materialized.as("counts"))
            .toStream(Named.as("changes")).to("out", Produced.as("sink")));
        CASES.put("rekeyed reduce", b -> b.<String, String>stream("in")
            .map((k, v) -> KeyValue.pair(v, k)).groupByKey().reduce((x, y) -> x.compareTo(y) > 0 ? x : y + "!")
            .toStream().to("out"));
        CASES.put("named grouping", b -> {
            KGroupedStream<String, String> grouped =
                b.<String, String>stream("in").groupBy((k, v) -> v, Grouped.as("by-value"));
            grouped.count(Materialized.as("counts")).toStream().to("counts");
            grouped.reduce((x, y) -> x + y, Materialized.as("joined")).toStream().to("joined");
        });
        CASES.put("aggregate that deletes", b -> b.<String, String>stream("in").groupByKey()
            .aggregate(() -> "", (k, v, a) -> v.equals("0") ? null : a + v).toStream().to("out"));
        CASES.put("cogroup", b -> {
            KTable<String, String> table = b.<String, String>stream("in").groupByKey()
                .<String>cogroup((k, v, a) -> a + "+" + v)
                .cogroup(b.<String, String>stream("other").groupByKey(),
                    (k, v, a) -> v.equals("0") ? null : a + "-" + v)
                .aggregate(() -> "");
            table.toStream().to("out");
            table.groupBy((k, v) -> KeyValue.pair(v.isEmpty() ? null : v.substring(v.length() - 1), k))
                .count().toStream().to("counts");
        });
        CASES.put("named cogroup", b -> b.<String, String>stream("in").groupBy((k, v) -> v)
            .<String>cogroup((k, v, a) -> a + v)
            .cogroup(b.<String, String>stream("other").groupByKey(), (k, v, a) -> v)
            .aggregate(() -> "", Named.as("together"), Materialized.as("both")).toStream().to("out"));
        CASES.put("repartition", b -> b.<String, String>stream("in").repartition().to("out"));
        CASES.put("named repartition", b -> b.<String, String>stream("in")
            .selectKey((k, v) -> v).repartition(Repartitioned.as("again"))
            .groupByKey().count(Materialized.as("counts")).toStream().to("out"));
        CASES.put("table", b -> b.table("in").toStream().to("out"));
        CASES.put("stored table", b -> b.table("in", Materialized.as("rows")).toStream().to("out"));
        CASES.put("named table", b -> b.table("in", Consumed.as("rows")).toStream().to("out"));
        CASES.put("table filter", b -> b.<String, String>table("in").filter((k, v) -> v.compareTo("2") >= 0)
            .mapValues(v -> v + v).toStream().to("out"));
        CASES.put("stored table filter", b -> b.<String, String>table("in")
            .filterNot((k, v) -> v.compareTo("2") >= 0, Materialized.as("small"))
            .mapValues((k, v) -> k + v, Materialized.as("mapped")).toStream().to("out"));
        CASES.put("table group", b -> b.<String, String>table("in")
            .groupBy((k, v) -> KeyValue.pair(v, k)).count().toStream().to("out"));
        CASES.put("table group of a filter", b -> b.<String, String>table("in")
            .filter((k, v) -> !v.equals("1")).mapValues(v -> v + "x")
            .groupBy((k, v) -> KeyValue.pair(v.equals("2x") ? null : v, k))
            .aggregate(() -> "", (k, v, a) -> a + "+" + v, (k, v, a) -> a + "-" + v).toStream().to("out"));
        CASES.put("named table group", b -> b.<String, String>table("in")
            .groupBy((k, v) -> KeyValue.pair(v, k), Grouped.as("by-value"))
            .reduce((x, y) -> x + "+" + y, (x, y) -> x + "-" + y, Named.as("reducing"), Materialized.as("reduced"))
            .toStream().to("out"));
        CASES.put("group of a group", b -> b.<String, String>stream("in").groupByKey().count()
            // the change of a new key has the initializer's value as its old one: no row ever had it
            .groupBy((k, n) -> KeyValue.pair(n == 0 ? null : String.valueOf(n), k), Grouped.with(Serdes.String(), Serdes.String()))
            .count().toStream().to("out"));
        CASES.put("to table", b -> b.<String, String>stream("in").toTable().toStream().to("out"));
        CASES.put("rekeyed to table", b -> b.<String, String>stream("in").selectKey((k, v) -> v)
            .toTable(Materialized.as("rows")).filter((k, v) -> !v.equals("1")).toStream().to("out"));
        CASES.put("versioned table", b -> b.<String, String>table("in",
                Materialized.as(Stores.persistentVersionedKeyValueStore("rows", Duration.ofMillis(50))))
            .groupBy((k, v) -> KeyValue.pair(v, k)).count().toStream().to("out"));
        CASES.put("several topics", b -> b.<String, String>stream(List.of("other", "in")).to((k, v, context) -> "out"));
        CASES.put("parts", b -> {
            b.stream("in").to("out");
            b.stream("other").groupByKey().count().toStream().to("counts");
        });
    }

    static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        CASES.get(name).accept(builder);
        return builder.build();
    }

    static TopologyTestDriver driver(String name, java.nio.file.Path state) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        return new TopologyTestDriver(topology(name), config, Instant.ofEpochMilli(0));
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "~" : HexFormat.of().formatHex(bytes);
    }

    static String text(String field) {
        return field.equals("~") ? null : field;
    }

    public static void main(String[] arguments) throws java.io.IOException {
        Scanner lines = new Scanner(java.nio.file.Path.of(arguments[0]), StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        TopologyTestDriver driver = null;
        while (lines.hasNextLine()) {
            String[] fields = lines.nextLine().split("\t");
            switch (fields[0]) {
                case "describe" -> CASES.keySet().forEach(
                    name -> out.append("=== ").append(name).append('\n').append(topology(name).describe()));
                case "case" -> {
                    if (driver != null) driver.close();
                    driver = driver(fields[1], java.nio.file.Path.of(arguments[0]).resolveSibling("state"));
                    out.append("case ").append(fields[1]).append('\n');
                }
                case "pipe" -> {
                    driver.createInputTopic(fields[1], new StringSerializer(), new StringSerializer())
                        .pipeInput(text(fields[2]), text(fields[3]), Long.parseLong(fields[4]));
                    out.append("pipe\n");
                    for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                        TestOutputTopic<byte[], byte[]> output = driver.createOutputTopic(
                            topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                        for (TestRecord<byte[], byte[]> record : output.readRecordsToList()) {
                            out.append(String.join("\t", topic, hex(record.key()), hex(record.value()),
                                String.valueOf(record.timestamp()))).append('\n');
                        }
                    }
                }
                default -> throw new IllegalArgumentException(fields[0]);
            }
        }
        if (driver != null) driver.close();
        System.out.print(out);
    }
}
