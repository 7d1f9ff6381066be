import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads lines of message name, version and hexadecimal bytes; writes the bytes as Apache Kafka encodes them again. */
public class ReencodeMessages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message",
        "org.apache.kafka.common.metadata",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.share.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.raft.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
    };

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(reencode(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    private static String reencode(String name, short version, byte[] bytes) {
        try {
            Message message = newMessage(name);
            ByteBuffer input = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return "left " + input.remaining() + " bytes unread";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(output), cache, version);
            return HexFormat.of().formatHex(output.array());
        } catch (Exception | Error e) {
            return e.toString().replace('\n', ' ');
        }
    }

    private static Message newMessage(String name) throws Exception {
        for (String pkg : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return (Message) Class.forName(pkg + "." + name + suffix).getDeclaredConstructor().newInstance();
                } catch (ClassNotFoundException e) {
                    // in another package
                }
            }
        }
        throw new IOException("no class for " + name);
    }
}
