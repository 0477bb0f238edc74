import com.azure.core.exception.ClientAuthenticationException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.MessagingSku;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;

/** Operations of the administration client, over HTTPS. */
final class Administration {
    private static final int MANY = 110;
    private static final int TRIES = 100;

    private Administration() {}

    private static ServiceBusAdministrationClient client(String connectionString) {
        // It takes none of an entity.
        return new ServiceBusAdministrationClientBuilder()
                .connectionString(connectionString.replaceFirst(";EntityPath=.*", ""))
                .buildClient();
    }

    static void queue(Entity entity) {
        var client = client(entity.job.manage());
        var name = entity.job.entity();
        var other = name + "-2";
        var queue = client.getQueue(name);
        Entity.equal(List.of(queue.getLockDuration(), queue.getMaxDeliveryCount()),
                List.of(Duration.ofMinutes(1), 10));
        queue.setLockDuration(Duration.ofSeconds(30)).setMaxDeliveryCount(7);
        client.updateQueue(queue);
        var found = client.getQueue(name);
        Entity.equal(List.of(found.getLockDuration(), found.getMaxDeliveryCount()),
                List.of(Duration.ofSeconds(30), 7));
        entity.sender().sendMessages(Entity.several(3));
        Entity.equal(client.getQueueRuntimeProperties(name).getActiveMessageCount(), 3);
        var options = new CreateQueueOptions().setSessionRequired(true);
        Entity.truth(client.createQueue(other, options).isSessionRequired(), "sessions");
        Entity.raises(ResourceExistsException.class, () -> client.createQueue(other));
        client.deleteQueue(other);
        Entity.truth(!client.getQueueExists(other), "deleted");
        Entity.raises(ResourceNotFoundException.class, () -> client.getQueue(other));
        Entity.raises(ResourceNotFoundException.class, () -> client.deleteQueue(other));
    }

    static void topic(Entity entity) {
        var client = client(entity.job.manage());
        var name = entity.job.entity();
        var options = new CreateSubscriptionOptions().setSessionRequired(true);
        client.createSubscription(name, "more", options);
        var subscription = client.getSubscription(name, "more");
        Entity.truth(subscription.isSessionRequired(), "sessions");
        client.updateSubscription(subscription.setMaxDeliveryCount(3));
        Entity.equal(client.getSubscription(name, "more").getMaxDeliveryCount(), 3);
        Entity.equal(
                client.listSubscriptions(name).stream()
                        .map(SubscriptionProperties::getSubscriptionName).toList(),
                List.of(Entity.SUBSCRIPTION, "more"));
        Entity.equal(client.getTopicRuntimeProperties(name).getSubscriptionCount(), 2);
        client.deleteSubscription(name, "more");
        Entity.truth(!client.getSubscriptionExists(name, "more"), "deleted");
    }

    static void rules(Entity entity) {
        var client = client(entity.job.manage());
        var topic = entity.job.entity();
        var sql = new SqlRuleFilter("colour = @colour AND size > @size");
        sql.getParameters().put("@colour", "red");
        sql.getParameters().put("@size", 3);
        client.createRule(topic, "sql", Entity.SUBSCRIPTION, new CreateRuleOptions(sql)
                .setAction(new SqlRuleAction("SET seen = 'yes'")));
        var correlation = new CorrelationRuleFilter().setLabel("news");
        correlation.getProperties().put("number", 7);
        correlation.getProperties().put("text", "x");
        client.createRule(topic, "correlation", Entity.SUBSCRIPTION,
                new CreateRuleOptions(correlation));
        client.deleteRule(topic, Entity.SUBSCRIPTION, "$Default");
        Entity.equal(
                client.listRules(topic, Entity.SUBSCRIPTION).stream()
                        .map(RuleProperties::getName).toList(),
                List.of("correlation", "sql"));
        var found = client.getRule(topic, Entity.SUBSCRIPTION, "sql");
        var filter = (SqlRuleFilter) found.getFilter();
        Entity.equal(filter.getSqlExpression(), sql.getSqlExpression());
        // Numbers come back in another width.
        Entity.equal(filter.getParameters().toString(), sql.getParameters().toString());
        Entity.equal(((SqlRuleAction) found.getAction()).getSqlExpression(), "SET seen = 'yes'");
        var same = (CorrelationRuleFilter)
                client.getRule(topic, Entity.SUBSCRIPTION, "correlation").getFilter();
        Entity.equal(same.getLabel(), "news");
        Entity.equal(same.getProperties().toString(), correlation.getProperties().toString());
    }

    static void listQueues(Entity entity) {
        var client = client(entity.job.manage());
        var names = IntStream.range(0, MANY)
                .mapToObj(n -> String.format("%s-%03d", entity.job.entity(), n)).toList();
        names.forEach(client::createQueue);
        List<String> found = List.of();
        // While others create and delete queues, what is on which page changes.
        for (int n = 0; n < TRIES && !found.equals(names); n++)
            found = client.listQueues().stream()
                    .map(QueueProperties::getName).filter(names::contains).toList();
        Entity.equal(found, names);
        names.forEach(client::deleteQueue);
    }

    static void namespace(Entity entity) {
        var found = client(entity.job.manage()).getNamespaceProperties();
        Entity.equal(found.getMessagingSku(), MessagingSku.STANDARD);
    }

    static void withoutRight(Entity entity) {
        var client = client(entity.job.listen());
        var name = entity.job.entity();
        Entity.raises(ClientAuthenticationException.class, () -> client.getQueue(name));
        Entity.raises(ClientAuthenticationException.class, () -> client.createQueue(name + "-2"));
    }
}
