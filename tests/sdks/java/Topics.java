import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Operations of topics and subscriptions. */
final class Topics {
    private Topics() {}

    static void publish(Entity entity) {
        entity.sender().sendMessages(Entity.several(10));
        var found = Entity.bodies(Entity.completeAll(entity.receiver(), 10));
        Entity.equal(Entity.sorted(found), Entity.numbers(10));
    }

    static void deadLetter(Entity entity) {
        entity.sender().sendMessages(Entity.several(2));
        var receiver = entity.receiver();
        Entity.take(receiver, 2).forEach(each -> receiver.deadLetter(each, Settling.WHY));
        var found = Entity.completeAll(entity.deadLetters(), 1).get(0);
        Entity.equal(found.getDeadLetterReason(), "why");
    }

    static void defer(Entity entity) {
        entity.send("x");
        var receiver = entity.receiver();
        Entity.equal(receiver.peekMessage().getBody().toString(), "x");
        var message = Entity.takeOne(receiver);
        receiver.defer(message);
        receiver.complete(receiver.receiveDeferredMessage(message.getSequenceNumber()));
    }

    static void schedule(Entity entity) {
        var sender = entity.sender();
        var due = OffsetDateTime.now().plus(Entity.HOUR);
        sender.cancelScheduledMessages(Sending.scheduleAll(entity, 2, due));
        sender.scheduleMessage(new ServiceBusMessage("x"), OffsetDateTime.now().plusSeconds(1));
        Entity.completeAll(entity.receiver(), 1);
    }

    static void sessions(Entity entity) {
        entity.send(Entity.several(3, "a"));
        entity.send(Entity.several(1, "b"));
        var found = Entity.completeAll(entity.session("a"), 3);
        Entity.equal(Entity.bodies(found), Entity.numbers(3));
    }

    static void rules(Entity entity) {
        var builder = entity.listening().ruleManager().topicName(entity.job.entity());
        var rules = entity.opened(builder.subscriptionName(Entity.SUBSCRIPTION).buildClient());
        var red = new CorrelationRuleFilter("c").setLabel("s");
        red.getProperties().put("color", "red");
        rules.createRule("red", new CreateRuleOptions(red));
        var blue = new CreateRuleOptions(new SqlRuleFilter("color = 'blue'"));
        rules.createRule("blue", blue.setAction(new SqlRuleAction("SET n = 1")));
        Map<String, RuleProperties> found = new HashMap<>();
        rules.listRules().forEach(each -> found.put(each.getName(), each));
        Entity.equal(found.keySet(), Set.of("$Default", "red", "blue"));
        Entity.equal(found.get("red").getFilter(), red);
        var filter = (SqlRuleFilter) found.get("blue").getFilter();
        Entity.equal(filter.getSqlExpression(), "color = 'blue'");
        var action = (SqlRuleAction) found.get("blue").getAction();
        Entity.equal(action.getSqlExpression(), "SET n = 1");
        found.keySet().forEach(rules::deleteRule);
        Entity.equal(rules.listRules().stream().toList(), List.of());
    }
}
