// Does with Azure.Messaging.ServiceBus what tests/integration/dotnet plays frame by frame.
//
// Arguments: a connection string, a queue, a queue with sessions, a queue that is sent to in a
// transaction. Ends with code 0 if all is well. Leaves one message in the last queue.

using System.Transactions;
using Azure.Messaging.ServiceBus;

var (connection, queue, sessions, target) = (args[0], args[1], args[2], args[3]);
var options = new ServiceBusClientOptions { EnableCrossEntityTransactions = true };

await using (var client = new ServiceBusClient(connection))
{
    await Messages(client);
    await Sessions(client);
}
await using (var client = new ServiceBusClient(connection, options))
{
    await AcrossEntities(client);
}
return 0;

async Task Messages(ServiceBusClient client)
{
    await using var sender = client.CreateSender(queue);
    await using var receiver = client.CreateReceiver(queue);
    using var batch = await sender.CreateMessageBatchAsync();
    foreach (var number in Enumerable.Range(0, 4))
        Check(batch.TryAddMessage(new ServiceBusMessage($"{number}")), "the batch is full");
    await sender.SendMessagesAsync(batch);

    var first = await Next(receiver);
    await sender.SendMessageAsync(new ServiceBusMessage(first));
    await receiver.CompleteMessageAsync(first);
    var changes = new Dictionary<string, object> { ["tries"] = 1 };
    await receiver.AbandonMessageAsync(await Next(receiver), changes);
    var again = await Next(receiver);
    Check(again.DeliveryCount == 2 && (int)again.ApplicationProperties["tries"] == 1, "abandoned");
    await receiver.RenewMessageLockAsync(again);
    await receiver.DeferMessageAsync(again);
    var deferred = await receiver.ReceiveDeferredMessageAsync(again.SequenceNumber);
    await receiver.CompleteMessageAsync(deferred);
    await receiver.DeadLetterMessageAsync(await Next(receiver), "bad", "It is.");
    await receiver.CompleteMessageAsync(await Next(receiver));
    var sentOn = await Next(receiver);
    Check($"{sentOn.Body}" == "0" && sentOn.SequenceNumber == 5, "sent on");
    await receiver.CompleteMessageAsync(sentOn);

    var deadLetters = client.CreateReceiver(
        queue, new ServiceBusReceiverOptions { SubQueue = SubQueue.DeadLetter });
    var dead = await Next(deadLetters);
    Check(dead.DeadLetterReason == "bad", "the reason");
    await deadLetters.CompleteMessageAsync(dead);

    var at = DateTimeOffset.UtcNow.AddHours(1);
    var scheduled = await sender.ScheduleMessageAsync(new ServiceBusMessage("late"), at);
    Check((await receiver.PeekMessageAsync(0))?.SequenceNumber == scheduled, "peeked");
    await sender.CancelScheduledMessageAsync(scheduled);
}

async Task Sessions(ServiceBusClient client)
{
    await using var sender = client.CreateSender(sessions);
    await sender.SendMessageAsync(new ServiceBusMessage("one") { SessionId = "a" });
    await using (var named = await client.AcceptSessionAsync(sessions, "a"))
    {
        await named.SetSessionStateAsync(BinaryData.FromString("half done"));
        Check($"{await named.GetSessionStateAsync()}" == "half done", "the state");
        await named.RenewSessionLockAsync();
    }
    await using var next = await client.AcceptNextSessionAsync(sessions);
    Check(next.SessionId == "a", "the session");
    await next.CompleteMessageAsync(await Next(next));
    await next.SetSessionStateAsync(null);
}

async Task AcrossEntities(ServiceBusClient client)
{
    await using var sender = client.CreateSender(queue);
    await sender.SendMessageAsync(new ServiceBusMessage("order"));
    await using var receiver = client.CreateReceiver(queue);
    await using var others = client.CreateSender(target);
    var order = await Next(receiver);
    using var scope = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled);
    await others.SendMessageAsync(new ServiceBusMessage("invoice"));
    await receiver.CompleteMessageAsync(order);
    scope.Complete();
}

async Task<ServiceBusReceivedMessage> Next(ServiceBusReceiver receiver) =>
    await receiver.ReceiveMessageAsync(TimeSpan.FromSeconds(20))
    ?? throw new InvalidOperationException("there is no message");

void Check(bool holds, string what)
{
    if (!holds) throw new InvalidOperationException(what);
}
