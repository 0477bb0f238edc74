"""The bus on which programs of official SDKs meet errors: two partitions, with TLS and policies."""

import base64
import contextlib
import itertools
import os
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import ServiceBusQuotaExceededError
from bendybus.client.management import EntityStatus
from bendybus.domain import limits, partitioning
from tests.azure_sdk.error_table import Case, Found, cases
from tests.azure_sdk.live_bus import AMQPS_PORT
from tests.integration.secured import LISTEN_KEY, ROOT, SEND_KEY, SecuredBus, policy
from tests.ports import HOST, free_port, loopback_address

PARTITIONS: Final = 2
# The one that is down where one is.
DOWN: Final = 1
# Of the programs: how often they try again, the pause before that, and the time of a try.
RETRIES, PAUSE_S, TRY_S = 2, 0.2, 10
UNAVAILABLE: Final = "partition_unavailable"
# Of messages that fill a queue, until no small one has room.
_SIZES: Final = (limits.MB // 4, limits.MB // 64, 1_000, 1)
_COUNTERS: Final = (
    "bendybus_user_errors_total",
    "bendybus_server_errors_total",
    "bendybus_throttled_requests_total",
)
_POLICIES: Final = (
    ROOT,
    policy("sender", ["Send"], [SEND_KEY]),
    policy("listener", ["Listen"], [LISTEN_KEY]),
)


class ErrorBus:
    """A bus with the queues of some SDKs. `whole`: else a partition is down."""

    def __init__(self, folder: Path, sdks: Iterable[str], *, whole: bool) -> None:
        self.address = loopback_address(AMQPS_PORT)
        self._metrics_port = free_port()
        self.secured = SecuredBus(
            folder,
            _POLICIES,
            addresses=(HOST, self.address),
            partitions=PARTITIONS,
            partition_module="tests.azure_sdk.small_queues",
            front_end_options=(
                f"--amqps-listen={self.address}:{AMQPS_PORT}",
                f"--metrics-port={self._metrics_port}",
            ),
        )
        # Refusals of a queue before its program.
        self._before: dict[str, int] = {}
        self.cases = [each for each in cases() if (each.name != UNAVAILABLE) is whole]
        for case in self.cases:
            for sdk in sdks:
                self._prepare(case, name_of(case, sdk))
        if not whole:
            self.secured.bus.partitions[DOWN].kill()

    @property
    def ca_file(self) -> str:
        """What clients must trust."""
        return str(self.secured.ca_file)

    def job(self, case: Case, sdk: str) -> dict[str, Any]:
        """Return what a program is told."""
        wrong = base64.b64encode(b"wrong").decode()
        return {
            "id": name_of(case, sdk),
            "operation": f"error:{case.name}",
            "entity": name_of(case, sdk),
            "topic": False,
            "send": self._string("sender", wrong if case.name == "wrong_key" else SEND_KEY),
            "listen": self._string("listener", LISTEN_KEY),
            "key": _key(DOWN),
        }

    def found(self, case: Case, sdk: str, printed: Any) -> Found:
        """Return what a program found, and how often this bus refused it."""
        name = name_of(case, sdk)
        tries = self._refused(name) - self._before.get(name, 0)
        return Found.of({**printed, "tries": tries})

    def end(self) -> None:
        """End all of it."""
        self.secured.end()

    def _prepare(self, case: Case, name: str) -> None:
        if case.name == "missing_entity":
            return
        with self.secured.administration() as administration:
            made = administration.create_queue(name, **case.settings)
            if case.name == "queue_full":
                self._fill(name)
                self._before[name] = self._refused(name)
            if case.name.startswith("disabled"):
                made.status = (
                    EntityStatus.SEND_DISABLED
                    if case.name == "disabled_send"
                    else EntityStatus.RECEIVE_DISABLED
                )
                administration.update_queue(made)

    def _fill(self, name: str) -> None:
        with self.secured.client() as client, client.get_queue_sender(name) as sender:
            for partition, size in itertools.product(range(PARTITIONS), _SIZES):
                message = ServiceBusMessage(os.urandom(size), partition_key=_key(partition))
                with contextlib.suppress(ServiceBusQuotaExceededError):
                    while True:
                        sender.send_messages(message)

    def _string(self, name: str, key: str) -> str:
        return f"Endpoint=sb://{self.address}/;SharedAccessKeyName={name};SharedAccessKey={key}"

    def _refused(self, name: str) -> int:
        url = f"http://{HOST}:{self._metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in lines
            if line.startswith(_COUNTERS) and f'"{name}"' in line
        )


def name_of(case: Case, sdk: str) -> str:
    """Return the queue of a case."""
    return f"{case.name.replace('_', '-')}-{sdk}"


def _key(partition: int) -> str:
    return next(
        key
        for key in map(str, itertools.count())
        if partitioning.partition_of(key, PARTITIONS) == partition
    )
