"""Programs that others wrote for AMQP or for Service Bus, unmodified, on a bus: `make sdks`."""
