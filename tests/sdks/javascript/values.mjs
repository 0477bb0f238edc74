// What a value of AMQP is in a message of @azure/service-bus: its type, and a text.

const WAIT = { maxWaitTimeInMs: 8_000 };
const NOTHING = "no message";

function shown(value) {
  if (value === null || value === undefined) return `${value}`;
  if (typeof value !== "object") return `${typeof value} ${value}`;
  // Properties that are bytes come as plain objects of numbered bytes, and described ones as rhea has them.
  const entries = Object.entries(value);
  if (!Array.isArray(value) && entries.length && entries.every(([key], n) => key === `${n}`))
    return `object of bytes ${Buffer.from(entries.map(([, each]) => each)).toString("hex")}`;
  if (value.descriptor) return `described object, value: ${shown(value.value)}`;
  return `${value.constructor?.name} ${JSON.stringify(value)}`;
}

export async function value(entity) {
  const [message] = await entity.receiver().receiveMessages(1, WAIT);
  if (!message) return { value: NOTHING };
  const properties = message.applicationProperties ?? {};
  return { value: shown("v" in properties ? properties.v : message.body) };
}
