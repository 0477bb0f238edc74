import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * A program on Qpid JMS, which knows AMQP 1.0 and nothing of Service Bus.
 *
 * <p>Arguments: a URL, the name of a policy and its key, then what to do: a method. Ends with code 0
 * if all is well.
 */
final class Jms {
    private static final long WAIT_MS = 20_000;
    private static final long SOON_MS = 1_000;

    private final Connection connection;

    private Jms(Connection connection) {
        this.connection = connection;
    }

    public static void main(String[] arguments) throws Exception {
        var factory = new JmsConnectionFactory(arguments[1], arguments[2], arguments[0]);
        var authority = System.getenv("SSL_CERT_FILE");
        if (authority != null) factory.setSslContext(Trust.only(authority));
        try (var connection = factory.createConnection()) {
            connection.start();
            Jms.class.getDeclaredMethod(arguments[3]).invoke(new Jms(connection));
        }
        System.exit(0);
    }

    /** Ten messages with properties, acknowledged one by one. */
    void acknowledges() throws JMSException {
        var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        var queue = session.createQueue("queue");
        try (var producer = session.createProducer(queue);
                var consumer = session.createConsumer(queue)) {
            for (var text : numbers(10)) {
                var message = session.createTextMessage(text);
                message.setIntProperty("number", Integer.parseInt(text));
                producer.send(message);
            }
            for (var text : numbers(10)) {
                var message = consumer.receive(WAIT_MS);
                equal(message.getIntProperty("number"), Integer.parseInt(text));
                equal(text(message), text);
                equal(message.getJMSRedelivered(), false);
            }
        }
    }

    /** What is sent in a transaction is there after its commit, and not after a rollback. */
    void sendsInTransactions() throws JMSException {
        var session = connection.createSession(Session.SESSION_TRANSACTED);
        try (var producer = session.createProducer(session.createQueue("queue"))) {
            for (var text : numbers(3)) producer.send(session.createTextMessage("no " + text));
            session.rollback();
            for (var text : numbers(3)) producer.send(session.createTextMessage(text));
            session.commit();
        }
        equal(taken("queue"), numbers(3));
    }

    /** What was received in a transaction that is rolled back comes again, at once. */
    void receivesInTransactions() throws JMSException {
        put("queue", numbers(3));
        var session = connection.createSession(Session.SESSION_TRANSACTED);
        try (var consumer = session.createConsumer(session.createQueue("queue"))) {
            equal(texts(consumer, 3), numbers(3));
            session.rollback();
            for (var text : numbers(3)) {
                var message = consumer.receive(WAIT_MS);
                equal(text(message), text);
                equal(message.getJMSRedelivered(), true);
                equal(message.getIntProperty("JMSXDeliveryCount"), 2);
            }
            session.commit();
            equal(consumer.receive(SOON_MS), null);
        }
    }

    /** Messages move from one queue to another in transactions, sent before they are settled. */
    void moves() throws JMSException {
        put("queue", numbers(3));
        var session = connection.createSession(Session.SESSION_TRANSACTED);
        try (var consumer = session.createConsumer(session.createQueue("queue"));
                var producer = session.createProducer(session.createQueue("other"))) {
            for (var text : numbers(3)) {
                var message = consumer.receive(WAIT_MS);
                producer.send(session.createTextMessage("moved " + text(message)));
                session.commit();
            }
        }
    }

    /** A listener gets what comes; recover() brings back what it has not acknowledged. */
    void listens() throws Exception {
        var session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        var done = new CountDownLatch(5);
        var seen = new ArrayList<String>();
        try (var consumer = session.createConsumer(session.createQueue("queue"))) {
            consumer.setMessageListener(
                    message -> {
                        try {
                            if (message.getJMSRedelivered()) {
                                seen.add(text(message));
                                message.acknowledge();
                                done.countDown();
                            } else {
                                session.recover();
                            }
                        } catch (JMSException error) {
                            throw new IllegalStateException(error);
                        }
                    });
            put("queue", numbers(5));
            if (!done.await(WAIT_MS, TimeUnit.MILLISECONDS))
                throw new IllegalStateException("the listener got " + seen);
        }
        equal(seen.stream().sorted().toList(), numbers(5));
    }

    /** A topic is sent to; its subscription is received from as a queue with its path. */
    void publishes() throws JMSException {
        var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        try (var producer = session.createProducer(session.createTopic("topic"))) {
            for (var text : numbers(3)) producer.send(session.createTextMessage(text));
        }
        equal(taken("topic/Subscriptions/all"), numbers(3));
    }

    /** What the bus would have to select is refused: a program gets all messages, or none. */
    void cannotSelect() throws JMSException {
        put("queue", numbers(1));
        var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        refused(() -> session.createConsumer(session.createQueue("queue"), "colour = 'red'"));
    }

    /** Browsing would lock messages, or take them. */
    void cannotBrowse() throws JMSException {
        put("queue", numbers(1));
        var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        refused(
                () -> {
                    var browser = session.createBrowser(session.createQueue("queue"));
                    browser.getEnumeration().hasMoreElements();
                });
    }

    private void put(String queue, List<String> texts) throws JMSException {
        try (var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
                var producer = session.createProducer(session.createQueue(queue))) {
            for (var text : texts) producer.send(session.createTextMessage(text));
        }
    }

    private List<String> taken(String queue) throws JMSException {
        try (var session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
                var consumer = session.createConsumer(session.createQueue(queue))) {
            var found = new ArrayList<String>();
            for (Message next; (next = consumer.receive(SOON_MS)) != null; ) found.add(text(next));
            return found;
        }
    }

    private static List<String> texts(MessageConsumer consumer, int count) throws JMSException {
        var found = new ArrayList<String>();
        for (int n = 0; n < count; n++) found.add(text(consumer.receive(WAIT_MS)));
        return found;
    }

    private static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    private interface Work {
        void run() throws JMSException;
    }

    private static void refused(Work work) {
        try {
            work.run();
        } catch (JMSException error) {
            return;
        }
        throw new IllegalStateException("it is not refused");
    }

    private static void equal(Object found, Object expected) {
        if (expected == null ? found != null : !expected.equals(found))
            throw new IllegalStateException(found + ", and not " + expected);
    }
}
