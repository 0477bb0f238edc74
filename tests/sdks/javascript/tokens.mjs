// A program on @azure/service-bus whose tokens are good for seconds; see tests/sdks/token_load.py.
//
// Input: one JSON object. Output: one, with what was acknowledged and completed, and each error.

import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";

const PAUSE_MS = 1_000;
const WAIT = { maxWaitTimeInMs: 1_000 };
// The SDK renews a token two minutes before its end, and one that is shorter again and again: it is
// told a later end, so that it renews in the last tenth of the real lifetime.
const MARGIN_S = 120;

let input = "";
for await (const chunk of process.stdin) input += chunk;
const plan = JSON.parse(input);
const began = Date.now();
const passed = () => (Date.now() - began) / 1_000;
const answer = { acknowledged: [], unsure: [], completed: {}, held: [], errors: [], tokens: 0 };

const credential = {
  getToken() {
    answer.tokens++;
    const ends = Math.floor(Date.now() / 1_000) + plan.lives;
    const resource = encodeURIComponent(`sb://${plan.address}/`);
    const signature = createHmac("sha256", plan.key).update(`${resource}\n${ends}`).digest("base64");
    const signed = `sr=${resource}&sig=${encodeURIComponent(signature)}&se=${ends}&skn=${plan.policy}`;
    const token = `SharedAccessSignature ${signed}`;
    const told = ends + MARGIN_S - plan.lives / 10;
    return Promise.resolve({ token, expiresOnTimestamp: told * 1_000 });
  },
};

const client = () =>
  new ServiceBusClient(plan.address, credential, {
    retryOptions: { maxRetries: 3, retryDelayInMs: 500, timeoutInMs: 15_000 },
  });

function failed(what, error) {
  // Where repeats failed too, the SDK throws all of their errors as one, which has no text.
  const { code, name, message } = error.errors?.at(-1) ?? error;
  answer.errors.push(`${passed().toFixed(1)} s: ${what}: ${code ?? name} ${message}`);
}

async function send(queue) {
  const sender = client().createSender(queue);
  for (let number = 0; passed() < plan.seconds; number++) {
    const body = `${number}`;
    try {
      await sender.sendMessages({ body, messageId: body });
      answer.acknowledged.push(body);
      await sleep(plan.pause * 1_000);
    } catch (error) {
      failed("send", error);
      answer.unsure.push(body);
      await sleep(PAUSE_MS);
    }
  }
}

const missing = () => answer.acknowledged.some((each) => !answer.completed[each]);

async function receive(queue) {
  const receiver = client().createReceiver(queue);
  const ends = plan.seconds + plan.rest;
  while (passed() < plan.seconds + 1 || (missing() && passed() < ends)) {
    try {
      for (const message of await receiver.receiveMessages(20, WAIT)) await complete(receiver, message);
    } catch (error) {
      failed("receive", error);
      await sleep(PAUSE_MS);
    }
  }
}

// Each is tried, also after one that failed: the SDK renews the locks of what is not settled, for
// five minutes.
async function complete(receiver, message) {
  try {
    await receiver.completeMessage(message);
    answer.completed[message.body] = (answer.completed[message.body] ?? 0) + 1;
  } catch (error) {
    failed("complete", error);
  }
}

// Receives all of a queue at first, and completes it when the disturbances are over.
async function hold(queue) {
  const receiver = client().createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
  const found = [];
  while (found.length < plan.held)
    found.push(...(await receiver.receiveMessages(plan.held - found.length, WAIT)));
  await sleep((plan.holds - passed()) * 1_000);
  for (const message of found) {
    for (let left = 30; left; left--) {
      try {
        await receiver.completeMessage(message);
        answer.held.push(message.body);
        break;
      } catch (error) {
        failed("complete what is held", error);
        await sleep(PAUSE_MS);
      }
    }
  }
}

const { load, held } = plan.queues;
await Promise.all([send(load), receive(load), hold(held)]);
// Timers of the SDK would keep the process; but what is written must be read first.
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
