// Operations of @azure/service-bus, as a program does them; what they are: tests/azure_sdk/operations.toml.
//
// Input: one JSON array of jobs {id, operation, entity, topic, send, listen, manage}, the last three
// connection strings. Output: a line of JSON for each, {id, error}; error is null if all is well. A job
// "error:NAME" is a call of errors.mjs, and "value" one of values.mjs; its answer has what was found.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import { found, OPTIONS } from "./errors.mjs";
import { value } from "./values.mjs";

const AT_ONCE = 8;
const SUBSCRIPTION = "all";
const HOUR_MS = 3_600_000;
const WAIT = { maxWaitTimeInMs: 20_000 };
const BATCH_BYTES = 256 * 1024;
const PART = 8 * 1024;
const ROOM = 400;
const MANY = 110;
const TRIES = 100;

class Entity {
  constructor(job, options = { retryOptions: { maxRetries: 2, retryDelayInMs: 200 } }) {
    Object.assign(this, { name: job.entity, topic: job.topic, job, options, clients: [] });
  }

  client(connectionString) {
    const client = new ServiceBusClient(connectionString, this.options);
    this.clients.push(client);
    return client;
  }

  get sending() {
    return (this._sending ??= this.client(this.job.send));
  }

  get listening() {
    return (this._listening ??= this.client(this.job.listen));
  }

  administration(connectionString = this.job.manage) {
    return new ServiceBusAdministrationClient(connectionString);
  }

  sender() {
    return (this._sender ??= this.sending.createSender(this.name));
  }

  path() {
    return this.topic ? [this.name, SUBSCRIPTION] : [this.name];
  }

  receiver(options = {}) {
    return this.listening.createReceiver(...this.path(), options);
  }

  session(id, options = {}) {
    return this.listening.acceptSession(...this.path(), id, options);
  }

  nextSession() {
    return this.listening.acceptNextSession(...this.path());
  }

  async send(...messages) {
    for (const message of messages) await this.sender().sendMessages(message);
  }

  async close() {
    for (const client of this.clients) await client.close();
  }
}

const several = (count, fields = {}) =>
  Array.from({ length: count }, (_, n) => ({ body: `${n}`, ...fields }));
const numbers = (count) => several(count).map((each) => each.body);
const bodies = (messages) => messages.map((each) => each.body);
const sorted = (texts) => [...texts].sort((one, other) => Number(one) - Number(other));

async function take(receiver, count) {
  const found = [];
  while (found.length < count) {
    const more = await receiver.receiveMessages(count - found.length, WAIT);
    if (!more.length) break;
    found.push(...more);
  }
  return found;
}

async function completeAll(receiver, count) {
  const found = await take(receiver, count);
  for (const message of found) await receiver.completeMessage(message);
  assert.equal(found.length, count);
  return found;
}

async function all(pages) {
  const found = [];
  for await (const each of pages) found.push(each);
  return found;
}

// What an operation raises: the code of its error.
async function refused(work, ...codes) {
  try {
    await work();
  } catch (error) {
    const found = error.errors?.at(-1) ?? error;
    assert.ok(codes.includes(found.code), told(error));
    return;
  }
  assert.fail(`no error, though one of ${codes} was expected`);
}

const OPERATIONS = {
  async send_one(entity) {
    await entity.send({ body: "one" });
    assert.deepEqual(bodies(await completeAll(entity.receiver(), 1)), ["one"]);
  },

  async send_a_list(entity) {
    await entity.sender().sendMessages(several(20));
    assert.deepEqual(sorted(bodies(await completeAll(entity.receiver(), 20))), numbers(20));
  },

  async send_a_batch(entity) {
    const batch = await entity.sender().createMessageBatch();
    assert.equal(batch.maxSizeInBytes, BATCH_BYTES);
    for (let n = 0; n < BATCH_BYTES / PART; n++)
      assert.ok(batch.tryAddMessage({ body: Buffer.alloc(PART - ROOM) }));
    assert.ok(!batch.tryAddMessage({ body: Buffer.alloc(2 * PART) }));
    await entity.sender().sendMessages(batch);
  },

  async send_too_much(entity) {
    const large = (size) => ({ body: Buffer.alloc(size) });
    await refused(() => entity.send(large(BATCH_BYTES + 1)), "MessageSizeExceeded");
    await entity.send(large(BATCH_BYTES - ROOM));
  },

  async send_by_key(entity) {
    await entity.send(...several(10, { partitionKey: "key" }));
    assert.deepEqual(bodies(await completeAll(entity.receiver(), 10)), numbers(10));
  },

  async send_on(entity) {
    await entity.send({ body: "on", applicationProperties: { kept: 1 } });
    const [received] = await completeAll(entity.receiver(), 1);
    await entity.send(received);
    const [shown] = await entity.receiver().peekMessages(1);
    assert.deepEqual([shown.body, shown.applicationProperties], ["on", { kept: 1 }]);
  },

  async send_twice(entity) {
    const message = { body: "x", messageId: "id", partitionKey: "id" };
    await entity.send(message, message);
  },

  async schedule(entity) {
    const due = new Date(Date.now() + HOUR_MS);
    const first = await entity.sender().scheduleMessages({ body: "a" }, due);
    const more = await entity.sender().scheduleMessages(several(3), due);
    const scheduled = [...first, ...more].map(String);
    assert.equal(new Set(scheduled).size, 4);
    const shown = await entity.receiver().peekMessages(10);
    assert.deepEqual(
      new Set(shown.map((each) => `${each.sequenceNumber}`)),
      new Set(scheduled),
    );
  },

  async schedule_soon(entity) {
    await entity.sender().scheduleMessages(several(2), new Date(Date.now() + 1_000));
    await completeAll(entity.receiver(), 2);
  },

  async cancel(entity) {
    const due = new Date(Date.now() + HOUR_MS);
    const scheduled = await entity.sender().scheduleMessages(several(3), due);
    await entity.sender().cancelScheduledMessages(scheduled.slice(0, 2));
  },

  async send_without_right(entity) {
    const listener = entity.listening.createSender(entity.name);
    await refused(() => listener.sendMessages({ body: "x" }), "UnauthorizedAccess");
    const sender = entity.sending.createReceiver(entity.name);
    await refused(() => sender.receiveMessages(1, WAIT), "UnauthorizedError");
  },

  async receive_many(entity) {
    await entity.sender().sendMessages(several(100));
    await completeAll(entity.receiver(), 100);
  },

  async iterate(entity) {
    await entity.sender().sendMessages(several(10));
    const receiver = entity.receiver();
    const found = [];
    for await (const message of receiver.getMessageIterator({ maxWaitTimeInMs: 3_000 })) {
      await receiver.completeMessage(message);
      found.push(message.body);
      if (found.length === 10) break;
    }
    assert.deepEqual(sorted(found), numbers(10));
  },

  async process(entity) {
    await entity.sender().sendMessages(several(50));
    const found = [];
    const errors = [];
    const handlers = {
      processMessage: async (message) => void found.push(message.body),
      processError: async ({ error }) => void errors.push(error),
    };
    const subscription = entity.receiver().subscribe(handlers, { maxConcurrentCalls: 5 });
    for (let waits = 0; waits < 200 && found.length < 50; waits++) await sleep(100);
    await subscription.close();
    assert.deepEqual(errors, []);
    assert.deepEqual(sorted(found), numbers(50));
  },

  async receive_and_delete(entity) {
    await entity.sender().sendMessages(several(10));
    const found = await take(entity.receiver({ receiveMode: "receiveAndDelete" }), 10);
    assert.equal(found.length, 10);
    assert.equal(found[0].lockToken, undefined);
  },

  async receive_nothing(entity) {
    const began = Date.now();
    assert.deepEqual(await entity.receiver().receiveMessages(1, { maxWaitTimeInMs: 1_000 }), []);
    assert.ok(Date.now() - began < 10_000);
  },

  async peek(entity) {
    await entity.send(...several(30));
    const receiver = entity.receiver();
    const found = [];
    for (;;) {
      const page = await receiver.peekMessages(7);
      if (!page.length) break;
      found.push(...page);
    }
    assert.deepEqual(sorted(bodies(found)), numbers(30));
  },

  async complete(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver();
    const [message] = await completeAll(receiver, 1);
    await assert.rejects(() => receiver.completeMessage(message));
  },

  async abandon(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver();
    const [message] = await take(receiver, 1);
    await receiver.abandonMessage(message, { changed: 1 });
    const [again] = await completeAll(receiver, 1);
    assert.deepEqual([again.deliveryCount, again.applicationProperties], [1, { changed: 1 }]);
  },

  async abandon_often(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver();
    for (let tries = 0; tries < 2; tries++) {
      const [message] = await take(receiver, 1);
      await receiver.abandonMessage(message);
    }
  },

  async dead_letter(entity) {
    await entity.sender().sendMessages(several(2));
    const receiver = entity.receiver();
    const why = { deadLetterReason: "why", deadLetterErrorDescription: "because" };
    for (const message of await take(receiver, 2)) await receiver.deadLetterMessage(message, why);
    const [found] = await completeAll(entity.receiver({ subQueueType: "deadLetter" }), 1);
    assert.equal(found.deadLetterReason, "why");
    assert.equal(found.deadLetterErrorDescription, "because");
  },

  async defer(entity) {
    await entity.sender().sendMessages(several(3));
    const receiver = entity.receiver();
    const found = await take(receiver, 3);
    for (const message of found) await receiver.deferMessage(message);
    const deferred = found.map((each) => each.sequenceNumber);
    for (const message of await receiver.receiveDeferredMessages(deferred))
      await receiver.completeMessage(message);
  },

  async renew(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver({ maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await take(receiver, 1);
    const before = message.lockedUntilUtc;
    await sleep(100);
    assert.ok((await receiver.renewMessageLock(message)) > before);
    await receiver.completeMessage(message);
    await refused(() => receiver.renewMessageLock(message), "MessageLockLost");
  },

  async complete_late(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver({ maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await take(receiver, 1);
    const [again] = await take(receiver, 1);
    await refused(() => receiver.completeMessage(message), "MessageLockLost");
    assert.equal(again.deliveryCount, 1);
    await receiver.completeMessage(again);
  },

  async session(entity) {
    for (const id of ["a", "b"]) await entity.send(...several(5, { sessionId: id }));
    for (const id of ["a", "b"]) {
      const found = await completeAll(await entity.session(id), 5);
      assert.deepEqual(bodies(found), numbers(5));
      assert.deepEqual(new Set(found.map((each) => each.sessionId)), new Set([id]));
    }
  },

  async next_session(entity) {
    await entity.send({ body: "x", sessionId: "only" });
    const receiver = await entity.nextSession();
    assert.equal(receiver.sessionId, "only");
    await completeAll(receiver, 1);
  },

  async held_session(entity) {
    const holder = await entity.session("a");
    await refused(() => entity.session("a"), "SessionCannotBeLocked");
    await holder.close();
    assert.equal((await entity.session("a")).sessionId, "a");
  },

  async session_state(entity) {
    const first = await entity.session("a");
    assert.equal(await first.getSessionState(), null);
    await first.setSessionState("kept");
    await first.close();
    const second = await entity.session("a");
    assert.equal(await second.getSessionState(), "kept");
    await second.setSessionState(null);
    assert.equal(await second.getSessionState(), null);
  },

  async renew_session(entity) {
    const receiver = await entity.session("a");
    const before = receiver.sessionLockedUntilUtc;
    await sleep(100);
    assert.ok((await receiver.renewSessionLock()) > before);
  },

  async lost_session(entity) {
    await entity.send({ body: "x", sessionId: "a" });
    const receiver = await entity.session("a", { maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await take(receiver, 1);
    // Longer than the lock: the bus extends locks by the time that it is suspended for.
    await sleep(8_000);
    await refused(() => receiver.completeMessage(message), "SessionLockLost");
    const [again] = await completeAll(await entity.session("a"), 1);
    assert.equal(again.deliveryCount, 1);
  },

  async settle_in_session(entity) {
    await entity.send(...several(3, { sessionId: "a" }), { body: "other", sessionId: "b" });
    const receiver = await entity.session("a");
    assert.deepEqual(bodies(await receiver.peekMessages(10)), ["0", "1", "2"]);
    const [first] = await take(receiver, 1);
    await receiver.abandonMessage(first);
    const [again] = await take(receiver, 1);
    assert.deepEqual([again.body, again.deliveryCount], ["0", 1]);
    await receiver.completeMessage(again);
    const [second] = await take(receiver, 1);
    await receiver.deferMessage(second);
    const [third] = await take(receiver, 1);
    await receiver.deadLetterMessage(third);
    const [deferred] = await receiver.receiveDeferredMessages(second.sequenceNumber);
    await receiver.completeMessage(deferred);
  },

  async publish(entity) {
    await entity.sender().sendMessages(several(10));
    assert.deepEqual(sorted(bodies(await completeAll(entity.receiver(), 10))), numbers(10));
  },

  async dead_letter_of_subscription(entity) {
    await entity.sender().sendMessages(several(2));
    const receiver = entity.receiver();
    for (const message of await take(receiver, 2))
      await receiver.deadLetterMessage(message, { deadLetterReason: "why" });
    const [found] = await completeAll(entity.receiver({ subQueueType: "deadLetter" }), 1);
    assert.equal(found.deadLetterReason, "why");
  },

  async defer_on_subscription(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver();
    assert.deepEqual(bodies(await receiver.peekMessages(1)), ["x"]);
    const [message] = await take(receiver, 1);
    await receiver.deferMessage(message);
    const [again] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    await receiver.completeMessage(again);
  },

  async schedule_on_topic(entity) {
    const sender = entity.sender();
    const later = await sender.scheduleMessages(several(2), new Date(Date.now() + HOUR_MS));
    await sender.cancelScheduledMessages(later);
    await sender.scheduleMessages({ body: "x" }, new Date(Date.now() + 1_000));
    await completeAll(entity.receiver(), 1);
  },

  async sessions_of_subscription(entity) {
    await entity.send(...several(3, { sessionId: "a" }), { body: "x", sessionId: "b" });
    assert.deepEqual(bodies(await completeAll(await entity.session("a"), 3)), numbers(3));
  },

  async rules(entity) {
    const rules = entity.listening.createRuleManager(...entity.path());
    const filter = { subject: "s", applicationProperties: { color: "red" } };
    await rules.createRule("red", filter);
    const action = { sqlExpression: "SET n = 1" };
    await rules.createRule("blue", { sqlExpression: "color = 'blue'" }, action);
    const found = new Map((await rules.getRules()).map((each) => [each.name, each]));
    assert.deepEqual(new Set(found.keys()), new Set(["$Default", "red", "blue"]));
    assert.equal(found.get("red").filter.subject, "s");
    assert.deepEqual(found.get("red").filter.applicationProperties, { color: "red" });
    assert.equal(found.get("blue").action.sqlExpression, "SET n = 1");
    for (const name of found.keys()) await rules.deleteRule(name);
    assert.deepEqual(await rules.getRules(), []);
  },

  async all_fields(entity) {
    const sent = {
      body: Buffer.from("body"),
      applicationProperties: { number: 1.5, whole: 7, truth: true, text: "x" },
      contentType: "text/plain",
      correlationId: "c",
      subject: "s",
      to: "t",
      replyTo: "r",
      replyToSessionId: "rs",
      partitionKey: "k",
      timeToLive: 300_000,
      messageId: "m",
    };
    await entity.send(sent);
    const [found] = await completeAll(entity.receiver(), 1);
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(found[name], value, name);
  },

  async bodies(entity) {
    await entity.send(
      { bodyType: "value", body: { key: [1, "two", null] } },
      { bodyType: "sequence", body: [1, "three"], properties: { messageId: "sequence" } },
    );
    const all = await completeAll(entity.receiver(), 2);
    const sequence = all.find((each) => each.messageId === "sequence");
    assert.deepEqual(sequence.body, [1, "three"]);
    assert.equal(sequence._rawAmqpMessage.bodyType, "sequence");
    const value = all.find((each) => each !== sequence);
    assert.deepEqual(value.body, { key: [1, "two", null] });
  },

  async annotated(entity) {
    await entity.send({
      bodyType: "data",
      body: Buffer.from("x"),
      messageAnnotations: { "x-ours": "kept" },
      footer: { f: 1 },
    });
    const [found] = await completeAll(entity.receiver(), 1);
    const { messageAnnotations, footer } = found._rawAmqpMessage;
    assert.equal(messageAnnotations["x-ours"], "kept");
    assert.deepEqual(footer, { f: 1 });
  },

  async administer_queue(entity) {
    const client = entity.administration();
    const [name, other] = [entity.name, `${entity.name}-2`];
    const queue = await client.getQueue(name);
    assert.deepEqual([queue.lockDuration, queue.maxDeliveryCount], ["PT1M", 10]);
    await client.updateQueue({ ...queue, lockDuration: "PT30S", maxDeliveryCount: 7 });
    const found = await client.getQueue(name);
    assert.deepEqual([found.lockDuration, found.maxDeliveryCount], ["PT30S", 7]);
    await entity.sender().sendMessages(several(3));
    assert.equal((await client.getQueueRuntimeProperties(name)).activeMessageCount, 3);
    assert.ok((await client.createQueue(other, { requiresSession: true })).requiresSession);
    await refused(() => client.createQueue(other), "MessageEntityAlreadyExistsError");
    await client.deleteQueue(other);
    assert.ok(!(await client.queueExists(other)));
    await refused(() => client.getQueue(other), "MessageEntityNotFoundError");
  },

  async administer_topic(entity) {
    const [client, name] = [entity.administration(), entity.name];
    await client.createSubscription(name, "more", { requiresSession: true });
    const subscription = await client.getSubscription(name, "more");
    assert.ok(subscription.requiresSession);
    await client.updateSubscription({ ...subscription, maxDeliveryCount: 3 });
    assert.equal((await client.getSubscription(name, "more")).maxDeliveryCount, 3);
    const listed = await all(client.listSubscriptions(name));
    assert.deepEqual(listed.map((each) => each.subscriptionName), [SUBSCRIPTION, "more"]);
    assert.equal((await client.getTopicRuntimeProperties(name)).subscriptionCount, 2);
    await client.deleteSubscription(name, "more");
    assert.ok(!(await client.subscriptionExists(name, "more")));
  },

  async administer_rules(entity) {
    const [client, place] = [entity.administration(), [entity.name, SUBSCRIPTION]];
    const sqlParameters = { "@colour": "red", "@size": 3 };
    const sql = { sqlExpression: "colour = @colour AND size > @size", sqlParameters };
    await client.createRule(...place, "sql", sql, { sqlExpression: "SET seen = 'yes'" });
    const correlation = { subject: "news", applicationProperties: { number: 7, text: "x" } };
    await client.createRule(...place, "correlation", correlation);
    await client.deleteRule(...place, "$Default");
    const listed = await all(client.listRules(...place));
    assert.deepEqual(listed.map((each) => each.name), ["correlation", "sql"]);
    const { filter, action } = await client.getRule(...place, "sql");
    assert.equal(filter.sqlExpression, sql.sqlExpression);
    assert.deepEqual(filter.sqlParameters, sqlParameters);
    assert.equal(action.sqlExpression, "SET seen = 'yes'");
    const found = (await client.getRule(...place, "correlation")).filter;
    assert.equal(found.subject, "news");
    assert.deepEqual(found.applicationProperties, correlation.applicationProperties);
  },

  async list_queues(entity) {
    const client = entity.administration();
    const names = several(MANY).map((_, n) => `${entity.name}-${`${n}`.padStart(3, "0")}`);
    for (const name of names) await client.createQueue(name);
    let found = [];
    // While others create and delete queues, what is on which page changes.
    for (let n = 0; n < TRIES && found.length !== MANY; n++) {
      const listed = (await all(client.listQueues())).map((each) => each.name);
      found = listed.filter((name) => names.includes(name));
    }
    assert.deepEqual(found, names);
    for (const name of names) await client.deleteQueue(name);
  },

  async show_namespace(entity) {
    const found = await entity.administration().getNamespaceProperties();
    assert.equal(found.messagingSku, "Standard");
  },

  async administer_without_right(entity) {
    const client = entity.administration(entity.job.listen);
    await refused(() => client.getQueue(entity.name), "UnauthorizedRequestError");
    await refused(() => client.createQueue(`${entity.name}-2`), "UnauthorizedRequestError");
  },
};

// One line for each error: the SDK raises all tries together.
const told = (error) =>
  error.errors ? error.errors.map(told).join("\n") : `${error.code ?? ""} ${error.stack ?? error}`;

async function perform(job) {
  const [operation, name] = job.operation.split(":");
  const entity = name ? new Entity(job, OPTIONS) : new Entity(job);
  try {
    if (name) return { error: null, found: await found(entity, name) };
    if (operation === "value") return { error: null, found: await value(entity) };
    await OPERATIONS[operation](entity);
    return { error: null };
  } catch (error) {
    return { error: told(error) };
  } finally {
    await entity.close().catch(() => {});
  }
}

async function main() {
  if (process.argv.includes("--list")) {
    console.log(JSON.stringify(Object.keys(OPERATIONS)));
    return;
  }
  const at = process.argv.indexOf("--time");
  if (at >= 0) {
    const { time } = await import("./timing.mjs");
    await time(process.argv.slice(at + 1));
    process.exit(0);
  }
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  const jobs = JSON.parse(input);
  const worker = async () => {
    for (let job = jobs.shift(); job; job = jobs.shift())
      console.log(JSON.stringify({ id: job.id, ...(await perform(job)) }));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  // Timers of the SDK would keep the process.
  process.exit(0);
}

await main();
