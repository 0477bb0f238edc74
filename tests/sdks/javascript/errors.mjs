// Calls of @azure/service-bus that fail, one for each row of tests/azure_sdk/errors.toml.
//
// A function does what comes first, and returns the call; only that is timed.

import { setTimeout as sleep } from "node:timers/promises";

const LOST_MS = 6_500;
const WAIT = { maxWaitTimeInMs: 10_000 };

const sending = (message) => (entity) => () => entity.sender().sendMessages(message);
const one = sending({ body: "x" });

const CALLS = {
  missing_entity: one,
  wrong_key: one,
  disabled_send: one,
  queue_full: one,
  too_large: sending({ body: Buffer.alloc(2 * 1024 * 1024) }),

  no_right(entity) {
    const sender = entity.listening.createSender(entity.name);
    return () => sender.sendMessages({ body: "x" });
  },

  disabled_receive(entity) {
    const receiver = entity.receiver();
    return () => receiver.receiveMessages(1, WAIT);
  },

  async lock_lost(entity) {
    await entity.send({ body: "x" });
    const receiver = entity.receiver({ maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await receiver.receiveMessages(1, WAIT);
    await sleep(LOST_MS);
    return () => receiver.completeMessage(message);
  },

  async session_held(entity) {
    await entity.session("a", { maxAutoLockRenewalDurationInMs: 0 });
    return () => entity.session("a");
  },

  async session_lock_lost(entity) {
    const receiver = await entity.session("a", { maxAutoLockRenewalDurationInMs: 0 });
    await sleep(LOST_MS);
    return () => receiver.setSessionState("x");
  },

  no_session: (entity) => () => entity.nextSession(),

  partition_unavailable(entity) {
    return () => entity.sender().sendMessages({ body: "x", partitionKey: entity.job.key });
  },
};

export const OPTIONS = {
  retryOptions: { maxRetries: 2, retryDelayInMs: 200, timeoutInMs: 10_000 },
};

// What a call raises: its class, its code, and the seconds that it took.
export async function found(entity, name) {
  const call = await CALLS[name](entity);
  const began = performance.now();
  try {
    await call();
  } catch (error) {
    const seconds = (performance.now() - began) / 1_000;
    // The SDK raises all tries together.
    const last = error.errors?.at(-1) ?? error;
    return { class: error.name, reason: last.code ?? "", seconds };
  }
  throw new Error("no error");
}
