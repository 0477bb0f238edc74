import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusSenderClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;

/** A queue or topic, and clients for it: some with the right to send, some with that to listen. */
final class Entity implements AutoCloseable {
    static final String SUBSCRIPTION = "all";
    static final Duration WAIT = Duration.ofSeconds(20);
    static final Duration HOUR = Duration.ofHours(1);

    final Main.Job job;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private ServiceBusSenderClient sender;

    Entity(Main.Job job) {
        this.job = job;
    }

    /** What makes clients of a connection of their own. */
    private static ServiceBusClientBuilder builder(String connectionString) {
        var retries = new AmqpRetryOptions().setMaxRetries(2).setDelay(Duration.ofMillis(200));
        return new ServiceBusClientBuilder()
                .connectionString(connectionString)
                .retryOptions(retries.setTryTimeout(WAIT));
    }

    ServiceBusClientBuilder listening() {
        return builder(job.listen());
    }

    <T extends AutoCloseable> T opened(T client) {
        open.push(client);
        return client;
    }

    ServiceBusSenderClient sender() {
        if (sender == null) sender = sender(job.send());
        return sender;
    }

    ServiceBusSenderClient sender(String connectionString) {
        ServiceBusSenderClientBuilder made = builder(connectionString).sender();
        return opened((job.topic() ? made.topicName(job.entity()) : made.queueName(job.entity()))
                .buildClient());
    }

    /** What makes receivers, which neither complete messages nor renew locks by themselves. */
    ServiceBusReceiverClientBuilder receiving(String connectionString) {
        var made = builder(connectionString).receiver().disableAutoComplete();
        made.maxAutoLockRenewDuration(Duration.ZERO);
        return job.topic()
                ? made.topicName(job.entity()).subscriptionName(SUBSCRIPTION)
                : made.queueName(job.entity());
    }

    ServiceBusReceiverClientBuilder receiving() {
        return receiving(job.listen());
    }

    ServiceBusReceiverClient receiver() {
        return opened(receiving().buildClient());
    }

    ServiceBusReceiverClient deadLetters() {
        return opened(receiving().subQueue(SubQueue.DEAD_LETTER_QUEUE).buildClient());
    }

    ServiceBusSessionReceiverClient sessions() {
        var made = listening().sessionReceiver().disableAutoComplete();
        made.maxAutoLockRenewDuration(Duration.ZERO);
        if (job.topic()) made.topicName(job.entity()).subscriptionName(SUBSCRIPTION);
        else made.queueName(job.entity());
        return opened(made.buildClient());
    }

    ServiceBusReceiverClient session(String id) {
        return opened(sessions().acceptSession(id));
    }

    void send(List<ServiceBusMessage> messages) {
        messages.forEach(each -> sender().sendMessage(each));
    }

    void send(String body) {
        sender().sendMessage(new ServiceBusMessage(body));
    }

    /** Receives so many messages. */
    static List<ServiceBusReceivedMessage> take(ServiceBusReceiverClient from, int count) {
        var found = new ArrayList<ServiceBusReceivedMessage>();
        for (int before = -1; found.size() < count && before < found.size(); ) {
            before = found.size();
            from.receiveMessages(count - before, WAIT).forEach(found::add);
        }
        equal(found.size(), count);
        return found;
    }

    static ServiceBusReceivedMessage takeOne(ServiceBusReceiverClient from) {
        return take(from, 1).get(0);
    }

    static List<ServiceBusReceivedMessage> completeAll(ServiceBusReceiverClient from, int count) {
        var found = take(from, count);
        found.forEach(from::complete);
        return found;
    }

    static List<ServiceBusMessage> several(int count) {
        return new ArrayList<>(numbers(count).stream().map(ServiceBusMessage::new).toList());
    }

    static List<ServiceBusMessage> several(int count, String sessionId) {
        var made = several(count);
        made.forEach(each -> each.setSessionId(sessionId));
        return made;
    }

    static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    static List<String> bodies(Iterable<ServiceBusReceivedMessage> messages) {
        var found = new ArrayList<String>();
        messages.forEach(each -> found.add(each.getBody().toString()));
        return found;
    }

    static List<String> sorted(List<String> texts) {
        return texts.stream().sorted(Comparator.comparing(Integer::valueOf)).toList();
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected))
            throw new AssertionError(found + " is not " + expected);
    }

    static void truth(boolean found, String what) {
        if (!found) throw new AssertionError("not so: " + what);
    }

    /** What an operation throws. */
    static void refused(Runnable work, ServiceBusFailureReason reason) {
        try {
            work.run();
        } catch (ServiceBusException error) {
            if (!error.getReason().equals(reason)) throw error;
            return;
        }
        throw new AssertionError("no error, though " + reason + " was expected");
    }

    /** What an operation throws that does not give a reason of Service Bus's own. */
    static void refused(Runnable work, AmqpErrorCondition condition) {
        try {
            work.run();
        } catch (RuntimeException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause())
                if (cause instanceof AmqpException found
                        && found.getErrorCondition() == condition) return;
            throw error;
        }
        throw new AssertionError("no error, though " + condition + " was expected");
    }

    /** What an operation throws of a class. */
    static void raises(Class<? extends RuntimeException> kind, Runnable work) {
        try {
            work.run();
        } catch (RuntimeException error) {
            if (!kind.isInstance(error)) throw error;
            return;
        }
        throw new AssertionError("no error, though " + kind + " was expected");
    }

    @Override
    public void close() throws Exception {
        for (var each : open) each.close();
    }
}
