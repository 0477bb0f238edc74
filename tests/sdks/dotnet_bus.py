"""A bus of real processes, and a program on the SDK for .NET that uses it without TLS."""

import itertools
from pathlib import Path
from typing import Any

from bendybus.domain import limits
from bendybus.domain.limits import Tier
from tests.integration.processes import Bus
from tests.ports import HOST, free_port
from tests.sdks.dotnet_driver import Driver


class DotnetBus:
    """A bus with a shared port. Names of objects and entities are made so that tests share it."""

    def __init__(self, folder: Path, *, tier: Tier = Tier.STANDARD, partitions: int = 0) -> None:
        address = f"{HOST}:{free_port()}"
        self.bus = Bus(
            folder,
            partitions=partitions or limits.STANDARD_PARTITION_COUNT,
            tier=tier,
            front_end_options=(f"--shared-listen={address}",),
        )
        self.connection_string = self.bus.connection_string.replace(
            self.bus.front_end_address, address
        )
        self.administration = self.bus.administration()
        self.driver = Driver()
        self._numbers = itertools.count(1)

    def name(self, what: str) -> str:
        """Return a name that nothing has."""
        return f"{what}-{next(self._numbers)}"

    def client(self, **options: Any) -> "DotnetClient":
        """Return a ServiceBusClient; options are those of the operation `client`."""
        name = self.name("client")
        options.setdefault("connection", self.connection_string)
        self.driver.call("client", name=name, **options)
        return DotnetClient(self, name)

    def queue(self, **options: Any) -> str:
        """Create a queue and return its name."""
        name = self.name("queue")
        self.administration.create_queue(name, **options)
        return name

    def end(self) -> None:
        """End the program and the bus."""
        self.driver.end()
        self.administration.close()
        self.bus.end()


class DotnetClient:
    """A ServiceBusClient of the program."""

    def __init__(self, bus: DotnetBus, name: str) -> None:
        self._bus = bus
        self.name = name

    def sender(self, entity: str, **options: Any) -> str:
        """Create a sender and return its name."""
        return self._made("sender", entity, options)

    def receiver(self, entity: str, **options: Any) -> str:
        """Create a receiver and return its name."""
        return self._made("receiver", entity, options)

    def session(self, entity: str, **options: Any) -> str:
        """Accept a session and return the name of its receiver."""
        return self._made("accept", entity, options)

    def close(self) -> None:
        """Close it, with its senders and receivers."""
        self._bus.driver.call("close", name=self.name)

    def _made(self, operation: str, entity: str, options: dict[str, Any]) -> str:
        name = self._bus.name(operation)
        self._bus.driver.call(operation, name=name, client=self.name, entity=entity, **options)
        return name
