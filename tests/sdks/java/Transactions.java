import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.OffsetDateTime;
import java.util.List;

/** Operations in transactions: each is committed once, and rolled back once. */
final class Transactions {
    private Transactions() {}

    static void transaction(Entity entity) {
        var sender = entity.sender();
        var sent = sender.createTransaction();
        sender.sendMessage(message("one"), sent);
        sender.sendMessages(List.of(message("two")), sent);
        sender.commitTransaction(sent);
        var dropped = sender.createTransaction();
        sender.sendMessage(message("none"), dropped);
        sender.rollbackTransaction(dropped);

        var receiver = entity.receiver();
        var found = Entity.take(receiver, 2);
        Entity.equal(Entity.bodies(found), List.of("one", "two"));
        var settled = receiver.createTransaction();
        receiver.complete(found.get(0), new CompleteOptions().setTransactionContext(settled));
        receiver.commitTransaction(settled);
        var kept = receiver.createTransaction();
        receiver.complete(found.get(1), new CompleteOptions().setTransactionContext(kept));
        receiver.rollbackTransaction(kept);
        Entity.equal(Entity.bodies(receiver.peekMessages(10)), List.of("two"));
    }

    static void schedule(Entity entity) {
        var sender = entity.sender();
        var due = OffsetDateTime.now().plus(Entity.HOUR);
        var kept = sender.createTransaction();
        long number = sender.scheduleMessage(message("one"), due, kept);
        long cancelled = sender.scheduleMessage(message("three"), due, kept);
        sender.commitTransaction(kept);
        sender.cancelScheduledMessage(cancelled);
        var dropped = sender.createTransaction();
        sender.scheduleMessage(message("two"), due, dropped);
        sender.rollbackTransaction(dropped);

        var shown = entity.receiver().peekMessages(10).stream().toList();
        Entity.equal(Entity.bodies(shown), List.of("one"));
        Entity.equal(shown.get(0).getState(), ServiceBusMessageState.SCHEDULED);
        Entity.equal(shown.get(0).getSequenceNumber(), number);
    }

    /** What is deferred is settled by requests, not on a link. */
    static void deferred(Entity entity) {
        entity.send(List.of(message("one"), message("two")));
        var receiver = entity.receiver();
        var found = Entity.take(receiver, 2);
        found.forEach(receiver::defer);
        var again = receiver.receiveDeferredMessageBatch(Settling.numbers(found)).stream().toList();
        var settled = receiver.createTransaction();
        receiver.complete(again.get(0), new CompleteOptions().setTransactionContext(settled));
        receiver.commitTransaction(settled);
        var kept = receiver.createTransaction();
        receiver.complete(again.get(1), new CompleteOptions().setTransactionContext(kept));
        receiver.rollbackTransaction(kept);

        Entity.equal(Entity.bodies(receiver.peekMessages(10)), List.of("two"));
        Entity.refused(
                () -> receiver.renewMessageLock(again.get(0)),
                ServiceBusFailureReason.MESSAGE_LOCK_LOST);
        // The SDK takes it for settled, and does not try again.
        receiver.renewMessageLock(again.get(1));
    }

    private static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body).setPartitionKey("key");
    }
}
