import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;

/**
 * Serializes arrays of objects, and reads those of others. A line has values such as i5, j7, z1, s0041 (UTF-16), u and
 * n, separated by commas, and another serialization. The answer is Java's serialization, and whether the other is equal.
 */
public class JavaArrays {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ", -1);
            Object[] values = parts[0].isEmpty() ? new Object[0]
                : Arrays.stream(parts[0].split(",")).map(JavaArrays::value).toArray();
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ObjectOutputStream output = new ObjectOutputStream(bytes)) {
                output.writeObject(values);
            }
            String answer = HexFormat.of().formatHex(bytes.toByteArray());
            boolean isEqual = parts[1].isEmpty() || Arrays.equals(values, (Object[]) read(parts[1]));
            System.out.println(answer + " " + isEqual);
        }
    }

    static Object read(String text) throws Exception {
        return new ObjectInputStream(new ByteArrayInputStream(HexFormat.of().parseHex(text))).readObject();
    }

    static Object value(String text) {
        String rest = text.substring(1);
        switch (text.charAt(0)) {
            case 'i':
                return Integer.valueOf(rest);
            case 'j':
                return Long.valueOf(rest);
            case 'h':
                return Short.valueOf(rest);
            case 'z':
                return rest.equals("1");
            case 'd':
                return Double.valueOf(rest);
            case 'u':
                return UUID.fromString(rest);
            case 's':
                StringBuilder made = new StringBuilder();
                for (int place = 0; place < rest.length(); place += 4)
                    made.append((char) Integer.parseInt(rest.substring(place, place + 4), 16));
                return made.toString();
            default:
                return null;
        }
    }
}
