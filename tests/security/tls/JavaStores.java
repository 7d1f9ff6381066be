import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Collections;
import java.util.HexFormat;

/**
 * Java's stores. The argument names a directory with EC.key and RSA.key (PKCS#8), EC.pem and RSA.pem (their chains)
 * and authority.pem. The stores are written there, with the password "of-the-store". What Java finds in each is
 * printed: file, alias, "key" or "trusted", and the SHA-256 of each certificate.
 */
public class JavaStores {
    private static final char[] STORE = "of-the-store".toCharArray();
    private static final char[] KEY = "of-the-key".toCharArray();
    private final Path directory;

    private JavaStores(Path directory) {
        this.directory = directory;
    }

    public static void main(String[] arguments) throws Exception {
        JavaStores stores = new JavaStores(Path.of(arguments[0]));
        stores.write("keys.p12", "PKCS12", STORE, true, true);
        stores.write("two-passwords.p12", "PKCS12", KEY, true, false);
        stores.write("trust.p12", "PKCS12", null, false, true);
        stores.write("old.jks", "JKS", STORE, true, true);
        stores.write("old.jceks", "JCEKS", STORE, true, true);
        System.setProperty("keystore.pkcs12.legacy", "true");
        stores.write("legacy.p12", "PKCS12", STORE, true, true);
        stores.write("legacy-trust.p12", "PKCS12", null, false, true);
        System.clearProperty("keystore.pkcs12.legacy");
        Security.setProperty("keystore.pkcs12.certProtectionAlgorithm", "NONE");
        Security.setProperty("keystore.pkcs12.macAlgorithm", "NONE");
        stores.write("open.p12", "PKCS12", null, false, true);
    }

    private void write(String name, String type, char[] keyPassword, boolean keys, boolean trusted) throws Exception {
        KeyStore store = KeyStore.getInstance(type);
        store.load(null, null);
        if (keys) {
            for (String algorithm : new String[] {"EC", "RSA"}) {
                store.setKeyEntry("the " + algorithm + " key", key(algorithm), keyPassword, chain(algorithm));
            }
        }
        if (trusted) {
            store.setCertificateEntry("authority", chain("authority")[0]);
        }
        String path = directory.resolve(name).toString();
        try (FileOutputStream out = new FileOutputStream(path)) {
            store.store(out, STORE);
        }
        KeyStore read = KeyStore.getInstance(type);
        try (FileInputStream in = new FileInputStream(path)) {
            read.load(in, STORE);
        }
        for (String alias : Collections.list(read.aliases())) {
            StringBuilder line = new StringBuilder(name).append('\t').append(alias).append('\t');
            Certificate[] certificates;
            if (read.isKeyEntry(alias)) {
                line.append("key");
                certificates = read.getCertificateChain(alias);
            } else {
                line.append("trusted");
                certificates = new Certificate[] {read.getCertificate(alias)};
            }
            for (Certificate each : certificates) {
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(each.getEncoded());
                line.append('\t').append(HexFormat.of().formatHex(digest));
            }
            System.out.println(line);
        }
    }

    private PrivateKey key(String algorithm) throws Exception {
        byte[] encoded = Files.readAllBytes(directory.resolve(algorithm + ".key"));
        return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(encoded));
    }

    private Certificate[] chain(String name) throws Exception {
        try (FileInputStream in = new FileInputStream(directory.resolve(name + ".pem").toString())) {
            return CertificateFactory.getInstance("X.509").generateCertificates(in).toArray(new Certificate[0]);
        }
    }
}
