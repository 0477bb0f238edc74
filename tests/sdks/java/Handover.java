import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;

/**
 * A program on azure-messaging-servicebus whose front end is replaced; see
 * tests/sdks/test_handover.py. Input: one JSON object. Output: one, with what was acknowledged and
 * completed, and each error.
 */
final class Handover {
    private static final Duration WAIT = Duration.ofSeconds(5);
    private static final long PAUSE_MS = 10;

    private final ConcurrentLinkedQueue<String> acknowledged = new ConcurrentLinkedQueue<>();
    private final Map<String, Integer> completed = new ConcurrentHashMap<>();
    private final Map<String, Integer> done = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    private int number;

    /** What a test asks for. */
    record Plan(
            @JsonProperty("connection") String connection,
            @JsonProperty("load") String load,
            @JsonProperty("later") String later,
            @JsonProperty("seconds") double seconds,
            @JsonProperty("rest") double rest) {}

    public static void main(String[] arguments) throws Exception {
        var json = new ObjectMapper();
        var plan = json.readValue(System.in, Plan.class);
        var authority = System.getenv("SSL_CERT_FILE");
        // Empty: its bus has no TLS.
        if (!authority.isEmpty()) Trust.everywhere(authority);
        var clients = new ServiceBusClientBuilder().connectionString(plan.connection());
        var sender = clients.sender().queueName(plan.load()).buildClient();
        var planner = clients.sender().queueName(plan.later()).buildClient();
        var receiver = clients.receiver().queueName(plan.load()).disableAutoComplete().buildClient();
        var peeker = clients.receiver().queueName(plan.later()).disableAutoComplete().buildClient();
        var load = new Handover();
        load.run(plan.seconds(), Map.of(
                "send", () -> load.send(sender),
                "receive", () -> load.receive(receiver),
                "schedule", () -> planner.scheduleMessage(
                        new ServiceBusMessage("x"), OffsetDateTime.now().plusHours(1)),
                "peek", () -> peeker.peekMessages(3).forEach(message -> {})));
        var ends = Instant.now().plusMillis((long) (plan.rest() * 1_000));
        while (!load.completed.keySet().containsAll(load.acknowledged) && Instant.now().isBefore(ends))
            load.receive(receiver);
        System.out.println(json.writeValueAsString(Map.of(
                "acknowledged", load.acknowledged, "completed", load.completed,
                "done", load.done, "errors", load.errors)));
        // Threads of the SDK would keep the process.
        System.exit(0);
    }

    private void run(double seconds, Map<String, Runnable> works) throws Exception {
        var ends = Instant.now().plusMillis((long) (seconds * 1_000));
        var workers = Executors.newFixedThreadPool(works.size());
        var all = works.entrySet().stream().map(each -> workers.submit(() -> {
            while (Instant.now().isBefore(ends)) {
                repeat(each.getKey(), each.getValue());
                Thread.sleep(PAUSE_MS);
            }
            return null;
        })).toList();
        for (var each : all) each.get();
    }

    private void repeat(String name, Runnable work) {
        try {
            work.run();
            done.merge(name, 1, Integer::sum);
        } catch (RuntimeException error) {
            errors.add("%s: %s".formatted(name, error));
        }
    }

    private void send(ServiceBusSenderClient sender) {
        var body = Integer.toString(number++);
        sender.sendMessage(new ServiceBusMessage(body));
        acknowledged.add(body);
    }

    private void receive(ServiceBusReceiverClient receiver) {
        for (var message : receiver.receiveMessages(10, WAIT)) {
            receiver.complete(message);
            completed.merge(message.getBody().toString(), 1, Integer::sum);
        }
    }
}
