import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What a program trusts. */
final class Trust {
    private Trust() {}

    /** Trust the certificates of a file, and no others. */
    static SSLContext only(String file) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (var stream = new FileInputStream(file)) {
            for (Certificate each :
                    CertificateFactory.getInstance("X.509").generateCertificates(stream))
                store.setCertificateEntry("authority " + store.size(), each);
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }
}
