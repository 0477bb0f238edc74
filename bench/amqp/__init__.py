"""AMQP 1.0: cost per message for the front end and for other brokers; sends with Azure's SDK."""
