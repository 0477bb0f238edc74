import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import java.time.Duration;
import java.util.Arrays;
import java.util.Date;
import java.util.HexFormat;

/** What a value of AMQP is in a message of azure-messaging-servicebus: its type, and a text. */
final class Values {
    private static final Duration WAIT = Duration.ofSeconds(8);

    private Values() {}

    static String value(Entity entity) {
        for (var each : entity.receiver().receiveMessages(1, WAIT)) return shown(value(each));
        return "no message";
    }

    private static Object value(ServiceBusReceivedMessage message) {
        var properties = message.getApplicationProperties();
        if (properties.containsKey("v")) return properties.get("v");
        var body = message.getRawAmqpMessage().getBody();
        return body.getBodyType() == AmqpMessageBodyType.VALUE ? body.getValue() : body.getFirstData();
    }

    private static String shown(Object value) {
        if (value == null) return "null";
        var kind = value.getClass().getSimpleName();
        if (value instanceof byte[] bytes) return kind + " " + HexFormat.of().formatHex(bytes);
        if (value instanceof Date moment) return kind + " " + moment.toInstant();
        if (value instanceof int[] numbers) return kind + " " + Arrays.toString(numbers);
        return kind + " " + value;
    }
}
