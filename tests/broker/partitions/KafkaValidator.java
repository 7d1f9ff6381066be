import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * Reads lines of record batches in Base64. Writes the largest timestamp of each, or why Apache Kafka refuses it
 * or cannot read what it has accepted.
 */
public class KafkaValidator {
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final long HOUR_MS = 3_600_000;
    private static final int LEADER_EPOCH = 0;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(validated(Base64.getDecoder().decode(line)));
        }
    }

    private static String validated(byte[] bytes) {
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
            MutableRecordBatch batch = records.batches().iterator().next();
            LogValidator validator = new LogValidator(records, PARTITION, Time.SYSTEM, batch.compressionType(),
                Compression.of(batch.compressionType()).build(), false, RecordBatch.MAGIC_VALUE_V2,
                TimestampType.CREATE_TIME, Long.MAX_VALUE, HOUR_MS, LEADER_EPOCH, AppendOrigin.CLIENT);
            validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Unrecorded(), BufferSupplier.NO_CACHING);
            long maxTimestamp = batch.maxTimestamp();
            return problemOfReaders(batch) == null ? Long.toString(maxTimestamp) : "accepted, but " + problemOfReaders(batch);
        } catch (Exception | Error e) {  // the snappy library throws an Error
            return e.toString().replace('\n', ' ');
        }
    }

    /** What keeps a consumer from reading the records of an accepted batch, or null. */
    private static String problemOfReaders(MutableRecordBatch batch) {
        try {
            long expected = batch.baseOffset();
            for (Record record : batch) {
                if (record.offset() != expected++) {
                    return "offset " + record.offset() + " is not in order";
                }
            }
            return null;
        } catch (Exception | Error e) {
            return e.toString().replace('\n', ' ');
        }
    }

    private static class Unrecorded implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }

        public void recordInvalidOffset() { }

        public void recordInvalidSequence() { }

        public void recordInvalidChecksums() { }

        public void recordNoKeyCompactedTopic() { }
    }
}
