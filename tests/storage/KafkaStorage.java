// Reads and continues a log directory with Apache Kafka's own storage classes.
//
//   KafkaStorage files LOG_DIR TOPIC        checkpoints, epochs, partition and meta properties, as Kafka reads them
//   KafkaStorage log LOG_DIR TOPIC CLEAN    opens the log, tells what it holds, appends one record, closes it

import java.io.File;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaStorage {
    static final LogDirFailureChannel CHANNEL = new LogDirFailureChannel(1);

    public static void main(String[] args) throws Exception {
        File logDir = new File(args[1]);
        File partition = new File(logDir, args[2] + "-0");
        if (args[0].equals("files")) {
            files(logDir, partition);
        } else {
            log(partition, Boolean.parseBoolean(args[3]));
        }
    }

    static void files(File logDir, File partition) throws Exception {
        for (String name : List.of("recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
                "replication-offset-checkpoint")) {
            System.out.println(name + " " + new TreeMap<>(strings(new OffsetCheckpointFile(new File(logDir, name), CHANNEL))));
        }
        System.out.println("epochs " + new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(partition), CHANNEL).read());
        System.out.println("topic id " + new PartitionMetadataFile(PartitionMetadataFile.newFile(partition), CHANNEL).read().topicId());
        MetaPropertiesEnsemble meta = new MetaPropertiesEnsemble.Loader().addLogDirs(List.of(logDir.getPath())).load();
        System.out.println("node " + meta.nodeId().getAsInt() + " cluster " + meta.clusterId().get());
    }

    static TreeMap<String, Long> strings(OffsetCheckpointFile file) {
        TreeMap<String, Long> result = new TreeMap<>();
        file.read().forEach((key, value) -> result.put(key.toString(), value));
        return result;
    }

    static void log(File partition, boolean clean) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(partition, new LogConfig(new java.util.HashMap<>()), 0, 0, scheduler,
            new BrokerTopicStats(), Time.SYSTEM, 60000, new ProducerStateManagerConfig(86400000, false), 60000,
            CHANNEL, clean, Optional.empty());
        System.out.println("offsets " + log.logStartOffset() + " " + log.logEndOffset());
        System.out.println("segments " + log.logSegments().stream().map(s -> s.baseOffset()).toList());
        System.out.println("producers " + log.activeProducers().stream().map(p ->
            p.producerId() + "/" + p.producerEpoch() + "/" + p.lastSequence() + "/" + p.currentTxnStartOffset()).sorted().toList());
        System.out.println("aborted " + log.collectAbortedTransactions(0, log.logEndOffset()).stream().map(a ->
            a.producerId() + "/" + a.firstOffset() + "/" + a.lastOffset() + "/" + a.lastStableOffset()).toList());
        System.out.println("latest epoch " + log.latestEpoch().get());
        MemoryRecords records = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(System.currentTimeMillis(), "by kafka".getBytes()));
        System.out.println("appended " + log.appendAsLeader(records, 7).firstOffset());
        log.close();
        scheduler.shutdown();
    }
}
