"""AMQP 1.0: what a message costs the front end, beside other brokers, and official SDKs."""
