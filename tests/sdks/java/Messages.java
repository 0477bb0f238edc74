import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.messaging.servicebus.ServiceBusMessage;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Operations on the content of messages. */
final class Messages {
    private Messages() {}

    static void allFields(Entity entity) {
        var sent =
                new ServiceBusMessage("body")
                        .setContentType("text/plain")
                        .setCorrelationId("c")
                        .setSubject("s")
                        .setTo("t")
                        .setReplyTo("r")
                        .setReplyToSessionId("rs")
                        .setPartitionKey("k")
                        .setTimeToLive(Duration.ofMinutes(5))
                        .setMessageId("m");
        var properties = sent.getApplicationProperties();
        properties.putAll(Map.of("number", 1.5, "whole", 7, "long", 7L, "truth", true));
        properties.putAll(Map.of("text", "x", "letter", 'x'));
        entity.send(List.of(sent));
        var found = Entity.completeAll(entity.receiver(), 1).get(0);
        Entity.equal(found.getBody().toString(), "body");
        Entity.equal(found.getApplicationProperties(), properties);
        Entity.equal(found.getContentType(), "text/plain");
        Entity.equal(found.getCorrelationId(), "c");
        Entity.equal(found.getSubject(), "s");
        Entity.equal(found.getTo(), "t");
        Entity.equal(found.getReplyTo(), "r");
        Entity.equal(found.getReplyToSessionId(), "rs");
        Entity.equal(found.getPartitionKey(), "k");
        Entity.equal(found.getTimeToLive(), Duration.ofMinutes(5));
        Entity.equal(found.getMessageId(), "m");
    }

    static void bodies(Entity entity) {
        Object value = Map.of("key", Arrays.asList(1, "two", null));
        List<Object> sequence = List.of(1, "three");
        entity.send(
                List.of(
                        new ServiceBusMessage(AmqpMessageBody.fromValue(value)),
                        new ServiceBusMessage(AmqpMessageBody.fromSequence(sequence))
                                .setMessageId("sequence")));
        for (var each : Entity.completeAll(entity.receiver(), 2)) {
            var found = each.getRawAmqpMessage().getBody();
            if ("sequence".equals(each.getMessageId()))
                Entity.equal(found.getSequence(), sequence);
            else Entity.equal(found.getValue(), value);
        }
    }
}
