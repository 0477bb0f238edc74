import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import reactor.core.publisher.Flux;

/** Operations of receivers. */
final class Receiving {
    private Receiving() {}

    static void receiveMany(Entity entity) {
        entity.sender().sendMessages(Entity.several(100));
        var found = Entity.bodies(Entity.completeAll(entity.receiver(), 100));
        Entity.equal(Entity.sorted(found), Entity.numbers(100));
    }

    static void iterate(Entity entity) {
        entity.sender().sendMessages(Entity.several(10));
        var receiver = entity.opened(entity.receiving().buildAsyncClient());
        var found =
                receiver.receiveMessages()
                        .concatMap(each -> receiver.complete(each).thenReturn(each))
                        .timeout(Duration.ofSeconds(3), Flux.empty())
                        .collectList()
                        .block(Entity.WAIT);
        Entity.equal(Entity.sorted(Entity.bodies(found)), Entity.numbers(10));
    }

    static void process(Entity entity) throws InterruptedException {
        entity.sender().sendMessages(Entity.several(50));
        var found = new ConcurrentLinkedQueue<String>();
        var errors = new ConcurrentLinkedQueue<Throwable>();
        var processor =
                entity.listening()
                        .processor()
                        .queueName(entity.job.entity())
                        .maxConcurrentCalls(5)
                        .processMessage(each -> found.add(each.getMessage().getBody().toString()))
                        .processError(each -> errors.add(each.getException()))
                        .buildProcessorClient();
        processor.start();
        for (int waits = 0; waits < 200 && found.size() < 50; waits++) Thread.sleep(100);
        processor.close();
        Entity.equal(List.copyOf(errors), List.of());
        Entity.equal(Entity.sorted(List.copyOf(found)), Entity.numbers(50));
    }

    static void receiveAndDelete(Entity entity) {
        entity.sender().sendMessages(Entity.several(10));
        var mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE;
        var receiver = entity.opened(entity.receiving().receiveMode(mode).buildClient());
        var found = Entity.take(receiver, 10);
        Entity.equal(found.get(0).getLockedUntil(), null);
    }

    static void prefetch(Entity entity) {
        entity.sender().sendMessages(Entity.several(50));
        Entity.completeAll(entity.opened(entity.receiving().prefetchCount(20).buildClient()), 50);
    }

    static void receiveNothing(Entity entity) {
        var began = System.nanoTime();
        var found = entity.receiver().receiveMessages(1, Duration.ofSeconds(1));
        Entity.equal(found.stream().count(), 0L);
        Entity.truth(System.nanoTime() - began < 10_000_000_000L, "it ends in time");
    }

    static void peek(Entity entity) {
        entity.send(Entity.several(30));
        var receiver = entity.receiver();
        var found = new ArrayList<ServiceBusReceivedMessage>();
        for (int before = -1; before < found.size(); ) {
            before = found.size();
            receiver.peekMessages(7).forEach(found::add);
        }
        Entity.equal(Entity.sorted(Entity.bodies(found)), Entity.numbers(30));
    }
}
