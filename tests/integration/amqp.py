"""A bus with AMQP without TLS, and clients of azure-servicebus for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.processes import Bus
from tests.ports import HOST, free_port

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient as SdkClient


class AmqpBus(Bus):
    """A bus whose front end listens for AMQP, too."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.amqp_address = f"{HOST}:{free_port()}"
        given = (f"--amqp-listen={self.amqp_address}", *options.pop("front_end_options", ()))
        super().__init__(folder, front_end_options=given, **options)

    def start_another_front_end(self) -> str:
        """Start a front end at addresses of its own, which is this bus's from now on; its AMQP."""
        [self.amqp_address] = self.start_front_end_elsewhere([self.amqp_address])
        return self.amqp_address

    @property
    def amqp_connection_string(self) -> str:
        """What official SDKs need."""
        return self.connection_string.replace(self.front_end_address, self.amqp_address)

    def sdk(self, **options: Any) -> "SdkClient":
        """Return a client of azure-servicebus."""
        # Where Spark's tests run, it is not installed.
        from azure.servicebus import ServiceBusClient as SdkClient

        return SdkClient.from_connection_string(self.amqp_connection_string, **options)


def take(receiver: Any, count: int, *, wait_s: float = 20.0) -> list[Any]:
    """Receive so many messages; fewer if there are none for a while."""
    found: list[Any] = []
    while len(found) < count:
        more = receiver.receive_messages(count - len(found), max_wait_time=wait_s)
        if not more:
            break
        found += more
    return found
