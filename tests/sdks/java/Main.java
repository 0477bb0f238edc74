import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Operations of azure-messaging-servicebus, as a program does them; what they are:
 * tests/azure_sdk/operations.toml.
 *
 * <p>Input: one JSON array of jobs. Output: a line of JSON for each; its error is null if all is
 * well. A job "error:NAME" is a call of Failures, and "value" one of Values; its answer has what was
 * found.
 */
final class Main {
    private static final int AT_ONCE = 8;
    private static final String ERROR = "error:";
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() {}

    /** What a test asks for: send, listen and manage are connection strings. */
    record Job(
            @JsonProperty("id") String id,
            @JsonProperty("operation") String operation,
            @JsonProperty("entity") String entity,
            @JsonProperty("topic") boolean topic,
            @JsonProperty("send") String send,
            @JsonProperty("listen") String listen,
            @JsonProperty("manage") String manage,
            @JsonProperty("key") String key) {}

    /** An operation. */
    interface Operation {
        void on(Entity entity) throws Exception;
    }

    private static final Map<String, Operation> OPERATIONS =
            Map.ofEntries(
                    Map.entry("send_one", Sending::sendOne),
                    Map.entry("send_a_list", Sending::sendAList),
                    Map.entry("send_a_batch", Sending::sendABatch),
                    Map.entry("send_too_much", Sending::sendTooMuch),
                    Map.entry("send_by_key", Sending::sendByKey),
                    Map.entry("send_on", Sending::sendOn),
                    Map.entry("send_twice", Sending::sendTwice),
                    Map.entry("schedule", Sending::schedule),
                    Map.entry("schedule_soon", Sending::scheduleSoon),
                    Map.entry("cancel", Sending::cancel),
                    Map.entry("send_without_right", Sending::sendWithoutRight),
                    Map.entry("receive_many", Receiving::receiveMany),
                    Map.entry("iterate", Receiving::iterate),
                    Map.entry("process", Receiving::process),
                    Map.entry("receive_and_delete", Receiving::receiveAndDelete),
                    Map.entry("prefetch", Receiving::prefetch),
                    Map.entry("receive_nothing", Receiving::receiveNothing),
                    Map.entry("peek", Receiving::peek),
                    Map.entry("complete", Settling::complete),
                    Map.entry("abandon", Settling::abandon),
                    Map.entry("abandon_often", Settling::abandonOften),
                    Map.entry("dead_letter", Settling::deadLetter),
                    Map.entry("defer", Settling::defer),
                    Map.entry("renew", Settling::renew),
                    Map.entry("complete_late", Settling::completeLate),
                    Map.entry("transaction", Transactions::transaction),
                    Map.entry("transaction_schedule", Transactions::schedule),
                    Map.entry("transaction_deferred", Transactions::deferred),
                    Map.entry("session", Sessions::session),
                    Map.entry("next_session", Sessions::nextSession),
                    Map.entry("held_session", Sessions::heldSession),
                    Map.entry("session_state", Sessions::sessionState),
                    Map.entry("renew_session", Sessions::renewSession),
                    Map.entry("lost_session", Sessions::lostSession),
                    Map.entry("settle_in_session", Sessions::settleInSession),
                    Map.entry("many_sessions", Sessions::manySessions),
                    Map.entry("publish", Topics::publish),
                    Map.entry("dead_letter_of_subscription", Topics::deadLetter),
                    Map.entry("defer_on_subscription", Topics::defer),
                    Map.entry("schedule_on_topic", Topics::schedule),
                    Map.entry("sessions_of_subscription", Topics::sessions),
                    Map.entry("rules", Topics::rules),
                    Map.entry("all_fields", Messages::allFields),
                    Map.entry("bodies", Messages::bodies),
                    Map.entry("administer_queue", Administration::queue),
                    Map.entry("administer_topic", Administration::topic),
                    Map.entry("administer_rules", Administration::rules),
                    Map.entry("list_queues", Administration::listQueues),
                    Map.entry("show_namespace", Administration::namespace),
                    Map.entry("administer_without_right", Administration::withoutRight));

    public static void main(String[] arguments) throws Exception {
        if (Arrays.asList(arguments).contains("--list")) {
            System.out.println(JSON.writeValueAsString(OPERATIONS.keySet()));
            return;
        }
        Trust.everywhere(System.getenv("SSL_CERT_FILE"));
        if (arguments.length > 0 && arguments[0].equals("--time")) {
            var rest = Arrays.asList(arguments).subList(1, arguments.length);
            System.out.println(JSON.writeValueAsString(Timing.time(rest)));
            System.exit(0);
        }
        List<Job> jobs = Arrays.asList(JSON.readValue(System.in, Job[].class));
        var workers = Executors.newFixedThreadPool(AT_ONCE);
        jobs.forEach(job -> workers.execute(() -> answer(job)));
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
        // Threads of the SDK would keep the process.
        System.exit(0);
    }

    private static void answer(Job job) {
        Map<String, Object> line = new HashMap<>();
        line.put("id", job.id());
        line.put("error", perform(job, line));
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static String perform(Job job, Map<String, Object> line) {
        var name = job.operation();
        try (var entity = new Entity(job)) {
            if (name.startsWith(ERROR)) {
                line.put("found", Failures.found(entity, name.substring(ERROR.length())));
            } else if (name.equals("value")) {
                line.put("found", Map.of("value", Values.value(entity)));
            } else {
                OPERATIONS.get(name).on(entity);
            }
            return null;
        } catch (Throwable error) {
            var text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            return text.toString();
        }
    }
}
