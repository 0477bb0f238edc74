import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import java.util.Map;

/**
 * Calls of azure-messaging-servicebus that fail, one for each row of tests/azure_sdk/errors.toml. A
 * function does what comes first, and returns the call; only that is timed.
 */
final class Failures {
    private static final long LOST_MS = 6_500;

    private Failures() {}

    private interface Failure {
        Runnable on(Entity entity) throws Exception;
    }

    private static final Map<String, Failure> FAILURES =
            Map.ofEntries(
                    Map.entry("missing_entity", Failures::sendOne),
                    Map.entry("wrong_key", Failures::sendOne),
                    Map.entry("no_right", Failures::sendAsListener),
                    Map.entry("disabled_send", Failures::sendOne),
                    Map.entry("disabled_receive", Failures::receiveOne),
                    Map.entry("too_large", Failures::sendTooMuch),
                    Map.entry("queue_full", Failures::sendOne),
                    Map.entry("lock_lost", Failures::completeTooLate),
                    Map.entry("session_held", Failures::acceptWhatIsHeld),
                    Map.entry("session_lock_lost", Failures::setTheStateTooLate),
                    Map.entry("no_session", Failures::acceptNothing),
                    Map.entry("partition_unavailable", Failures::sendByKey));

    /** What a call throws: its class, its reason, and the seconds that it took. */
    static Map<String, Object> found(Entity entity, String name) throws Exception {
        var call = FAILURES.get(name).on(entity);
        var began = System.nanoTime();
        try {
            call.run();
        } catch (RuntimeException error) {
            var seconds = (System.nanoTime() - began) / 1e9;
            var kind = error.getClass().getSimpleName();
            return Map.of("class", kind, "reason", reason(error), "seconds", seconds);
        }
        throw new AssertionError("no error");
    }

    private static String reason(Throwable error) {
        for (var cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ServiceBusException found) return found.getReason().toString();
            if (cause instanceof AmqpException found && found.getErrorCondition() != null)
                return found.getErrorCondition().getErrorCondition();
        }
        return "";
    }

    private static Runnable sendOne(Entity entity) {
        return () -> entity.sender().sendMessage(new ServiceBusMessage("x"));
    }

    private static Runnable sendAsListener(Entity entity) {
        var sender = entity.sender(entity.job.listen());
        return () -> sender.sendMessage(new ServiceBusMessage("x"));
    }

    private static Runnable sendTooMuch(Entity entity) {
        return () -> entity.sender().sendMessage(new ServiceBusMessage(new byte[2 << 20]));
    }

    private static Runnable sendByKey(Entity entity) {
        var message = new ServiceBusMessage("x").setPartitionKey(entity.job.key());
        return () -> entity.sender().sendMessage(message);
    }

    private static Runnable receiveOne(Entity entity) {
        var receiver = entity.receiver();
        return () -> Entity.takeOne(receiver);
    }

    private static Runnable completeTooLate(Entity entity) throws Exception {
        sendOne(entity).run();
        var receiver = entity.receiver();
        var message = Entity.takeOne(receiver);
        Thread.sleep(LOST_MS);
        return () -> receiver.complete(message);
    }

    private static Runnable acceptWhatIsHeld(Entity entity) {
        entity.session("a");
        return () -> entity.session("a");
    }

    private static Runnable setTheStateTooLate(Entity entity) throws Exception {
        var receiver = entity.session("a");
        Thread.sleep(LOST_MS);
        return () -> receiver.setSessionState("x".getBytes());
    }

    private static Runnable acceptNothing(Entity entity) {
        return () -> entity.opened(entity.sessions().acceptNextSession());
    }
}
