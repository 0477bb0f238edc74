import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;

/** Operations of senders. */
final class Sending {
    private static final int BATCH_BYTES = 256 * 1024;
    private static final int PART = 8 * 1024;
    private static final int ROOM = 400;

    private Sending() {}

    static void sendOne(Entity entity) {
        entity.send("one");
        Entity.equal(Entity.bodies(Entity.completeAll(entity.receiver(), 1)), List.of("one"));
    }

    static void sendAList(Entity entity) {
        entity.sender().sendMessages(Entity.several(20));
        var found = Entity.bodies(Entity.completeAll(entity.receiver(), 20));
        Entity.equal(Entity.sorted(found), Entity.numbers(20));
    }

    static void sendABatch(Entity entity) {
        var batch = entity.sender().createMessageBatch();
        Entity.equal(batch.getMaxSizeInBytes(), BATCH_BYTES);
        for (int n = 0; n < BATCH_BYTES / PART; n++)
            Entity.truth(batch.tryAddMessage(large(PART - ROOM)), "it fits");
        Entity.truth(!batch.tryAddMessage(large(2 * PART)), "one message more is refused");
        entity.sender().sendMessages(batch);
    }

    static void sendTooMuch(Entity entity) {
        Entity.refused(
                () -> entity.sender().sendMessage(large(BATCH_BYTES + 1)),
                ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED);
        // With a body of less than 8 KB below the limit the SDK sends nothing, and reports no error.
        entity.sender().sendMessage(large(BATCH_BYTES - PART));
    }

    private static ServiceBusMessage large(int bytes) {
        return new ServiceBusMessage(new byte[bytes]);
    }

    static void sendByKey(Entity entity) {
        var messages = Entity.several(10);
        messages.forEach(each -> each.setPartitionKey("key"));
        entity.send(messages);
        var found = Entity.completeAll(entity.receiver(), 10);
        Entity.equal(Entity.bodies(found), Entity.numbers(10));
    }

    static void sendOn(Entity entity) {
        var sent = new ServiceBusMessage("on");
        sent.getApplicationProperties().put("kept", 1);
        entity.send(List.of(sent));
        var received = Entity.completeAll(entity.receiver(), 1).get(0);
        entity.send(List.of(new ServiceBusMessage(received)));
        var shown = entity.receiver().peekMessage();
        Entity.equal(shown.getBody().toString(), "on");
        Entity.equal(shown.getApplicationProperties().get("kept"), 1);
    }

    static void sendTwice(Entity entity) {
        for (int n = 0; n < 2; n++)
            entity.sender()
                    .sendMessage(
                            new ServiceBusMessage("x").setMessageId("id").setPartitionKey("id"));
    }

    static void schedule(Entity entity) {
        var sender = entity.sender();
        var due = OffsetDateTime.now().plus(Entity.HOUR);
        var scheduled = new HashSet<Long>();
        scheduled.add(sender.scheduleMessage(new ServiceBusMessage("a"), due));
        scheduled.addAll(scheduleAll(entity, 3, due));
        Entity.equal(scheduled.size(), 4);
        var shown = new HashSet<Long>();
        for (var each : entity.receiver().peekMessages(10)) {
            Entity.equal(each.getState(), ServiceBusMessageState.SCHEDULED);
            shown.add(each.getSequenceNumber());
        }
        Entity.equal(shown, scheduled);
    }

    static void scheduleSoon(Entity entity) {
        scheduleAll(entity, 2, OffsetDateTime.now().plusSeconds(1));
        Entity.completeAll(entity.receiver(), 2);
    }

    static void cancel(Entity entity) {
        var due = OffsetDateTime.now().plus(Entity.HOUR);
        var scheduled = scheduleAll(entity, 3, due);
        entity.sender().cancelScheduledMessages(scheduled.subList(0, 2));
    }

    /** Schedules messages, which the SDK does when their numbers are asked for. */
    static List<Long> scheduleAll(Entity entity, int count, OffsetDateTime due) {
        var found = new ArrayList<Long>();
        entity.sender().scheduleMessages(Entity.several(count), due).forEach(found::add);
        Entity.equal(found.size(), count);
        return found;
    }

    static void sendWithoutRight(Entity entity) {
        var sender = entity.sender(entity.job.listen());
        Entity.refused(
                () -> sender.sendMessage(new ServiceBusMessage("x")),
                ServiceBusFailureReason.UNAUTHORIZED);
        var receiver = entity.opened(entity.receiving(entity.job.send()).buildClient());
        Entity.refused(() -> Entity.takeOne(receiver), AmqpErrorCondition.UNAUTHORIZED_ACCESS);
    }
}
