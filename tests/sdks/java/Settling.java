import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.util.List;
import java.util.Map;

/** What is done with messages that are received. */
final class Settling {
    static final DeadLetterOptions WHY =
            new DeadLetterOptions()
                    .setDeadLetterReason("why")
                    .setDeadLetterErrorDescription("because");
    /** Longer than the frames that a client may send; Apache Camel writes a whole stack trace. */
    static final DeadLetterOptions STACK_TRACE =
            new DeadLetterOptions()
                    .setDeadLetterReason("why")
                    .setDeadLetterErrorDescription("at Route.java:1 ".repeat(8_000));

    private Settling() {}

    static void complete(Entity entity) {
        entity.send("x");
        var receiver = entity.receiver();
        var message = Entity.completeAll(receiver, 1).get(0);
        try {
            receiver.complete(message);
        } catch (RuntimeException expected) {
            return;
        }
        throw new AssertionError("no error the second time");
    }

    static void abandon(Entity entity) {
        entity.send("x");
        var receiver = entity.receiver();
        var changed = Map.<String, Object>of("changed", 1);
        var options = new AbandonOptions().setPropertiesToModify(changed);
        receiver.abandon(Entity.takeOne(receiver), options);
        var again = Entity.completeAll(receiver, 1).get(0);
        Entity.equal(again.getDeliveryCount(), 1L);
        Entity.equal(again.getApplicationProperties(), changed);
    }

    static void abandonOften(Entity entity) {
        entity.send("x");
        var receiver = entity.receiver();
        for (int n = 0; n < 2; n++) receiver.abandon(Entity.takeOne(receiver));
    }

    static void deadLetter(Entity entity) {
        entity.sender().sendMessages(Entity.several(2));
        var receiver = entity.receiver();
        var found = Entity.take(receiver, 2);
        receiver.deadLetter(found.get(0), WHY);
        receiver.deadLetter(found.get(1), STACK_TRACE);
        var dead = Entity.completeAll(entity.deadLetters(), 1).get(0);
        Entity.equal(dead.getDeadLetterReason(), "why");
        Entity.equal(dead.getDeadLetterErrorDescription(), "because");
    }

    static void defer(Entity entity) {
        entity.sender().sendMessages(Entity.several(3));
        var receiver = entity.receiver();
        var found = Entity.take(receiver, 3);
        found.forEach(receiver::defer);
        receiver.receiveDeferredMessageBatch(numbers(found)).forEach(receiver::complete);
    }

    static List<Long> numbers(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList();
    }

    static void renew(Entity entity) throws InterruptedException {
        entity.send("x");
        var receiver = entity.receiver();
        var message = Entity.takeOne(receiver);
        var before = message.getLockedUntil();
        Thread.sleep(100);
        Entity.truth(receiver.renewMessageLock(message).isAfter(before), "it is locked for longer");
        receiver.complete(message);
        Entity.refused(
                () -> receiver.renewMessageLock(message),
                ServiceBusFailureReason.MESSAGE_LOCK_LOST);
    }

    static void completeLate(Entity entity) {
        entity.send("x");
        var receiver = entity.receiver();
        var message = Entity.takeOne(receiver);
        var again = Entity.takeOne(receiver);
        Entity.refused(
                () -> receiver.complete(message), ServiceBusFailureReason.MESSAGE_LOCK_LOST);
        Entity.equal(again.getDeliveryCount(), 1L);
        receiver.complete(again);
    }
}
