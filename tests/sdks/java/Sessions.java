import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Operations of receivers of sessions. */
final class Sessions {
    private Sessions() {}

    static void session(Entity entity) {
        for (var id : List.of("a", "b")) entity.send(Entity.several(5, id));
        for (var id : List.of("a", "b")) {
            var found = Entity.completeAll(entity.session(id), 5);
            Entity.equal(Entity.bodies(found), Entity.numbers(5));
            found.forEach(each -> Entity.equal(each.getSessionId(), id));
        }
    }

    static void nextSession(Entity entity) {
        entity.send(Entity.several(1, "only"));
        var receiver = entity.opened(entity.sessions().acceptNextSession());
        Entity.equal(receiver.getSessionId(), "only");
        Entity.completeAll(receiver, 1);
    }

    static void heldSession(Entity entity) {
        var holder = entity.session("a");
        Entity.refused(() -> entity.session("a"), AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED);
        holder.close();
        Entity.equal(entity.session("a").getSessionId(), "a");
    }

    static void sessionState(Entity entity) {
        var first = entity.session("a");
        Entity.equal(first.getSessionState(), null);
        first.setSessionState("kept".getBytes());
        first.close();
        var second = entity.session("a");
        Entity.equal(new String(second.getSessionState()), "kept");
        second.setSessionState(null);
        Entity.equal(second.getSessionState(), null);
    }

    static void renewSession(Entity entity) throws InterruptedException {
        var receiver = entity.session("a");
        var before = receiver.renewSessionLock();
        Thread.sleep(100);
        Entity.truth(receiver.renewSessionLock().isAfter(before), "it is locked for longer");
    }

    static void lostSession(Entity entity) throws InterruptedException {
        entity.send(Entity.several(1, "a"));
        var receiver = entity.session("a");
        var message = Entity.takeOne(receiver);
        // Longer than the lock: the bus extends locks by the time that it is suspended for.
        Thread.sleep(8_000);
        Entity.refused(
                () -> receiver.complete(message), ServiceBusFailureReason.SESSION_LOCK_LOST);
        var again = Entity.completeAll(entity.session("a"), 1).get(0);
        Entity.equal(again.getDeliveryCount(), 1L);
    }

    static void settleInSession(Entity entity) {
        entity.send(Entity.several(3, "a"));
        entity.send(Entity.several(1, "b"));
        var receiver = entity.session("a");
        Entity.equal(Entity.bodies(receiver.peekMessages(10)), Entity.numbers(3));
        receiver.abandon(Entity.takeOne(receiver));
        var again = Entity.takeOne(receiver);
        Entity.equal(again.getBody().toString(), "0");
        Entity.equal(again.getDeliveryCount(), 1L);
        receiver.complete(again);
        var second = Entity.takeOne(receiver);
        receiver.defer(second);
        receiver.deadLetter(Entity.takeOne(receiver));
        receiver.complete(receiver.receiveDeferredMessage(second.getSequenceNumber()));
    }

    /** More than the 255 links that a session of AMQP has by what it is told. */
    static void manySessions(Entity entity) throws InterruptedException {
        var ids = Entity.numbers(300);
        entity.send(ids.stream().map(id -> new ServiceBusMessage(id).setSessionId(id)).toList());
        var found = new ConcurrentLinkedQueue<String>();
        var errors = new ConcurrentLinkedQueue<Throwable>();
        var processor =
                entity.listening()
                        .sessionProcessor()
                        .queueName(entity.job.entity())
                        .maxConcurrentSessions(ids.size())
                        .processMessage(each -> found.add(each.getMessage().getSessionId()))
                        .processError(each -> errors.add(each.getException()))
                        .buildProcessorClient();
        processor.start();
        for (int n = 0; n < 300 && found.size() < ids.size(); n++) Thread.sleep(100);
        processor.close();
        Entity.equal(List.copyOf(errors), List.of());
        Entity.equal(Entity.sorted(List.copyOf(found)), ids);
    }
}
