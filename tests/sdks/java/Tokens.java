import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.credential.AccessToken;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.SSLContext;
import reactor.core.publisher.Mono;

/**
 * A program on azure-messaging-servicebus whose tokens are good for seconds; see
 * tests/sdks/token_load.py. Input: one JSON object. Output: one, with what was acknowledged and
 * completed, and each error.
 */
final class Tokens {
    private static final Duration WAIT = Duration.ofSeconds(1);

    private final Plan plan;
    private final Instant began = Instant.now();
    private final ConcurrentLinkedQueue<String> acknowledged = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<String> unsure = new ConcurrentLinkedQueue<>();
    private final Map<String, Integer> completed = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> held = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    private final AtomicInteger tokens = new AtomicInteger();

    private Tokens(Plan plan) {
        this.plan = plan;
    }

    /** What a test asks for. */
    record Plan(
            @JsonProperty("address") String address,
            @JsonProperty("queues") Map<String, String> queues,
            @JsonProperty("policy") String policy,
            @JsonProperty("key") String key,
            @JsonProperty("lives") long lives,
            @JsonProperty("seconds") double seconds,
            @JsonProperty("rest") double rest,
            @JsonProperty("pause") double pause,
            @JsonProperty("held") int count,
            @JsonProperty("holds") double holds) {}

    private interface Work {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        SSLContext.setDefault(Trust.only(System.getenv("SSL_CERT_FILE")));
        var json = new ObjectMapper();
        var load = new Tokens(json.readValue(System.in, Plan.class));
        var workers = Executors.newFixedThreadPool(3);
        List<Work> works = List.of(load::send, load::receive, load::hold);
        var done = works.stream().map(each -> workers.submit(() -> {
            each.run();
            return null;
        })).toList();
        for (var each : done) each.get();
        System.out.println(json.writeValueAsString(Map.of(
                "acknowledged", load.acknowledged, "unsure", load.unsure,
                "completed", load.completed, "held", load.held,
                "errors", load.errors, "tokens", load.tokens.get())));
        // Threads of the SDK would keep the process.
        System.exit(0);
    }

    private ServiceBusClientBuilder builder() {
        var retries = new AmqpRetryOptions().setMaxRetries(3).setDelay(Duration.ofMillis(500));
        return new ServiceBusClientBuilder()
                .credential(plan.address(), request -> Mono.fromCallable(this::token))
                .retryOptions(retries.setTryTimeout(Duration.ofSeconds(15)));
    }

    private AccessToken token() throws Exception {
        tokens.incrementAndGet();
        var ends = Instant.now().getEpochSecond() + plan.lives();
        var resource = encoded("sb://" + plan.address() + "/");
        var signer = Mac.getInstance("HmacSHA256");
        signer.init(new SecretKeySpec(plan.key().getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        var signed = signer.doFinal((resource + "\n" + ends).getBytes(StandardCharsets.UTF_8));
        var signature = encoded(Base64.getEncoder().encodeToString(signed));
        return new AccessToken(
                "SharedAccessSignature sr=" + resource + "&sig=" + signature + "&se=" + ends
                        + "&skn=" + plan.policy(),
                OffsetDateTime.ofInstant(Instant.ofEpochSecond(ends), ZoneOffset.UTC));
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private double passed() {
        return Duration.between(began, Instant.now()).toMillis() / 1e3;
    }

    private void failed(String what, RuntimeException error) throws InterruptedException {
        errors.add("%.1f s: %s: %s".formatted(passed(), what, error));
        Thread.sleep(1_000);
    }

    private void send() throws InterruptedException {
        var sender = builder().sender().queueName(plan.queues().get("load")).buildClient();
        for (int number = 0; passed() < plan.seconds(); number++) {
            var name = Integer.toString(number);
            try {
                sender.sendMessage(new ServiceBusMessage(name).setMessageId(name));
                acknowledged.add(name);
                Thread.sleep((long) (plan.pause() * 1_000));
            } catch (RuntimeException error) {
                failed("send", error);
                unsure.add(name);
            }
        }
    }

    private ServiceBusReceiverClient receiver(String queue) {
        var made = builder().receiver().queueName(queue).disableAutoComplete();
        return made.maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    private void receive() throws InterruptedException {
        var receiver = receiver(plan.queues().get("load"));
        while (passed() < plan.seconds() + 1
                || (!completed.keySet().containsAll(acknowledged)
                        && passed() < plan.seconds() + plan.rest())) {
            try {
                for (var message : receiver.receiveMessages(20, WAIT))
                    complete(receiver, message);
            } catch (RuntimeException error) {
                failed("receive", error);
            }
        }
    }

    /** Completes a message; one that fails does not keep the others of its batch locked. */
    private void complete(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage message)
            throws InterruptedException {
        try {
            receiver.complete(message);
            completed.merge(message.getBody().toString(), 1, Integer::sum);
        } catch (RuntimeException error) {
            failed("complete", error);
        }
    }

    /** Receives all of a queue at first, and completes it when the disturbances are over. */
    private void hold() throws InterruptedException {
        var receiver = receiver(plan.queues().get("held"));
        List<ServiceBusReceivedMessage> found = new ArrayList<>();
        while (found.size() < plan.count())
            receiver.receiveMessages(plan.count() - found.size(), WAIT).forEach(found::add);
        Thread.sleep((long) (Math.max(0, plan.holds() - passed()) * 1_000));
        for (var message : found) {
            for (int left = 30; left > 0; left--) {
                try {
                    receiver.complete(message);
                    held.add(message.getBody().toString());
                    break;
                } catch (RuntimeException error) {
                    failed("complete what is held", error);
                }
            }
        }
    }
}
