import java.io.FileInputStream;
import java.nio.file.Files;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What a program trusts. */
final class Trust {
    private static final String PASSWORD = "public";

    private Trust() {}

    /** What trusts the certificates of a file, and no others. */
    static SSLContext only(String file) throws Exception {
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store(file));
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    /** Let all of this process trust them: AMQP and HTTP take the store from there. */
    static void everywhere(String file) throws Exception {
        var store = store(file);
        var trusted = Files.createTempFile("trusted", ".p12");
        trusted.toFile().deleteOnExit();
        try (var stream = Files.newOutputStream(trusted)) {
            store.store(stream, PASSWORD.toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", trusted.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
        System.setProperty("javax.net.ssl.trustStoreType", store.getType());
    }

    private static KeyStore store(String file) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (var stream = new FileInputStream(file)) {
            for (Certificate each :
                    CertificateFactory.getInstance("X.509").generateCertificates(stream))
                store.setCertificateEntry("authority " + store.size(), each);
        }
        return store;
    }
}
