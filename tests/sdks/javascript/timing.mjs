// Times @azure/service-bus: `node operations.mjs --time sends QUEUE COUNT`, one awaited after the other;
// `--time list`, all queues. The environment has SERVICEBUS_CONNECTION_STRING. Output: seconds, as JSON.

import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";

const BODY = Buffer.alloc(256);
const seconds = (began) => Number(process.hrtime.bigint() - began) / 1e9;

async function sends(connectionString, queue, count) {
  const client = new ServiceBusClient(connectionString);
  const sender = client.createSender(queue);
  // The first send connects.
  await sender.sendMessages({ body: BODY });
  const took = [];
  for (let n = 0; n < count; n++) {
    const began = process.hrtime.bigint();
    await sender.sendMessages({ body: BODY });
    took.push(seconds(began));
  }
  await client.close();
  return took;
}

async function list(connectionString) {
  const client = new ServiceBusAdministrationClient(connectionString);
  await client.getNamespaceProperties();
  const began = process.hrtime.bigint();
  let count = 0;
  for await (const _ of client.listQueues()) count++;
  return [seconds(began), count];
}

export async function time([what, queue, count]) {
  const connectionString = process.env.SERVICEBUS_CONNECTION_STRING;
  const took =
    what === "list" ? await list(connectionString) : await sends(connectionString, queue, +count);
  console.log(JSON.stringify(took));
}
