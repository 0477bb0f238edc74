import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import java.util.ArrayList;
import java.util.List;

/** Times the SDK: sends one awaited after the other, or a list of all queues. In seconds. */
final class Timing {
    private static final byte[] BODY = new byte[256];

    private Timing() {}

    static List<Double> time(List<String> arguments) {
        var connectionString = System.getenv("SERVICEBUS_CONNECTION_STRING");
        return arguments.get(0).equals("list")
                ? list(connectionString)
                : sends(connectionString, arguments.get(1), Integer.parseInt(arguments.get(2)));
    }

    private static List<Double> sends(String connectionString, String queue, int count) {
        var took = new ArrayList<Double>();
        var clients = new ServiceBusClientBuilder().connectionString(connectionString);
        try (var sender = clients.sender().queueName(queue).buildClient()) {
            // The first send connects.
            sender.sendMessage(new ServiceBusMessage(BODY));
            for (int n = 0; n < count; n++) {
                var began = System.nanoTime();
                sender.sendMessage(new ServiceBusMessage(BODY));
                took.add((System.nanoTime() - began) / 1e9);
            }
        }
        return took;
    }

    private static List<Double> list(String connectionString) {
        // The client drops the port of a connection string.
        var port = connectionString.replaceFirst("^[^;]*:([0-9]+).*$", "$1");
        var client = new ServiceBusAdministrationClientBuilder()
                .connectionString(connectionString)
                .addPolicy((context, next) -> {
                    var url = UrlBuilder.parse(context.getHttpRequest().getUrl());
                    context.getHttpRequest().setUrl(url.setPort(port).toString());
                    return next.process();
                })
                .buildClient();
        client.getNamespaceProperties();
        var began = System.nanoTime();
        var count = client.listQueues().stream().count();
        return List.of((System.nanoTime() - began) / 1e9, (double) count);
    }
}
