// Cleans a log directory with Apache Kafka's own cleaner, once for each time given.
//
//   KafkaCleaner PARTITION_DIR SEGMENT_BYTES DELETE_RETENTION_MS MAP_BYTES TIME_MS...

import java.io.File;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaCleaner {
    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "internal.segment.bytes", args[1],
            "delete.retention.ms", args[2]));
        UnifiedLog log = UnifiedLog.create(new File(args[0]), config, 0, 0, scheduler, new BrokerTopicStats(),
            Time.SYSTEM, 60000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 60000,
            new LogDirFailureChannel(1), true, Optional.empty());
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        long firstDirty = 0;
        for (int i = 4; i < args.length; i++) {
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(args[3])), 1 << 20, 1 << 20, 0.9,
                throttler, Time.SYSTEM, partition -> { });
            LogToClean found = new LogToClean(log, firstDirty, log.activeSegment().baseOffset(), false);
            firstDirty = cleaner.doClean(found, Long.parseLong(args[i])).getKey();
            System.out.println("cleaned up to " + firstDirty);
            firstDirty = firstDirty == log.activeSegment().baseOffset() ? 0 : firstDirty;
        }
        log.close();
        scheduler.shutdown();
    }
}
