"""Sends a message and works on it, with the spans of both printed: one trace from end to end.

pip install '.[tracing]' opentelemetry-sdk
bendybus up -f examples/flights.yaml          # another terminal
python examples/tracing.py
"""

import os
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from bendybus.client import ServiceBusClient, ServiceBusMessage

LOCAL: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


def main(connection_string: str, queue: str, provider: TracerProvider) -> None:
    """Send a message to a queue, receive it, and work on it in the trace that it belongs to."""
    tracer = provider.get_tracer("example")
    with ServiceBusClient.from_connection_string(connection_string, tracing=provider) as client:
        with client.get_queue_sender(queue) as sender, tracer.start_as_current_span("order"):
            sender.send_messages(ServiceBusMessage('{"carrier": "UA"}'))
        with client.get_queue_receiver(queue, max_wait_time=5) as receiver:
            for message in receiver:
                context = propagate.extract(message.decoded_properties)
                with tracer.start_as_current_span("work", context):
                    receiver.complete_message(message)


if __name__ == "__main__":
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(made)
    main(os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL), "audit", made)
