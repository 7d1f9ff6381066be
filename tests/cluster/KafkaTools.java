import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other in one process: starting each by itself takes
 * longer than what it does.
 *
 * A line of standard input is the name of a class and its arguments, with U+0001 between them. What the tool
 * prints comes back, and then a line of U+0004 and its exit code.
 */
public class KafkaTools {
    private static class Ended extends RuntimeException {
    }

    private static ByteArrayOutputStream printed;
    private static byte[] output;
    private static int code;

    /** A tool calls this for exit. Some catch what it throws, and end a second time: the first counts. */
    private static void end(int exitCode) {
        if (output == null) {
            code = exitCode;
            output = printed.toByteArray();
        }
        throw new Ended();
    }

    public static void main(String[] nothing) throws Exception {
        Exit.setExitProcedure((exitCode, message) -> end(exitCode));
        Exit.setHaltProcedure((exitCode, message) -> end(exitCode));
        PrintStream out = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\u0001");
            printed = new ByteArrayOutputStream();
            output = null;
            code = 0;
            PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            try {
                Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException failure) {
                if (output == null) {
                    failure.getCause().printStackTrace(both);
                    code = 1;
                }
            }
            out.write(output == null ? printed.toByteArray() : output);
            out.println("\n\u0004" + code);
            out.flush();
        }
    }
}
