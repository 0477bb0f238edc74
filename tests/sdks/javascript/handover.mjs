// A program on @azure/service-bus whose front end is replaced; see tests/sdks/test_handover.py.
//
// Input: one JSON object. Output: one, with what was acknowledged and completed, and each error.

import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";

const PAUSE_MS = 10;
const HOUR_MS = 3_600_000;
const WAIT = { maxWaitTimeInMs: 5_000 };

let input = "";
for await (const chunk of process.stdin) input += chunk;
const plan = JSON.parse(input);
const ends = Date.now() + plan.seconds * 1_000;
const answer = { acknowledged: [], completed: {}, done: {}, errors: [] };
const client = new ServiceBusClient(plan.connection);
const sender = client.createSender(plan.load);
const receiver = client.createReceiver(plan.load);
const planner = client.createSender(plan.later);
const peeker = client.createReceiver(plan.later);

async function repeat(name, work) {
  while (Date.now() < ends) {
    try {
      await work();
      answer.done[name] = (answer.done[name] ?? 0) + 1;
    } catch (error) {
      // Where repeats failed too, the SDK throws all of their errors as one, which has no text.
      const { code, message } = error.errors?.at(-1) ?? error;
      answer.errors.push(`${name}: ${code} ${message}`);
    }
    await sleep(PAUSE_MS);
  }
}

let number = 0;

async function send() {
  const body = `${number++}`;
  await sender.sendMessages({ body });
  answer.acknowledged.push(body);
}

async function receive() {
  for (const message of await receiver.receiveMessages(10, WAIT)) {
    await receiver.completeMessage(message);
    answer.completed[message.body] = (answer.completed[message.body] ?? 0) + 1;
  }
}

await Promise.all([
  repeat("send", send),
  repeat("receive", receive),
  repeat("schedule", () => planner.scheduleMessages({ body: "x" }, new Date(Date.now() + HOUR_MS))),
  repeat("peek", () => peeker.peekMessages(3)),
]);
const rest = Date.now() + plan.rest * 1_000;
while (answer.acknowledged.some((each) => !answer.completed[each]) && Date.now() < rest) await receive();
// Timers of the SDK would keep the process; but what is written must be read first.
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
