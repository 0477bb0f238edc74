"""What the tests of .NET's frames have in common: entities, messages, counts."""

import uuid
from typing import Any, Final

from bendybus.amqp.sections import Header, Message, Properties
from tests.integration.dotnet.client import DotnetPeer
from tests.integration.guarded import Guarded
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

# Constructors of arrays.
UUIDS: Final = 0x98
LONGS: Final = 0x81


def created(guarded: Guarded, **options: Any) -> str:
    name = f"queue-{uuid.uuid4().hex[:12]}"
    with guarded.administration() as administration:
        administration.create_queue(name, **options)
    return name


def connected(guarded: Guarded, **options: Any) -> DotnetPeer:
    def token(audience: str) -> str:
        return guarded.token(ROOT_POLICY, ROOT_KEY, audience.split("/", 3)[3])

    return DotnetPeer(guarded.amqp_address, token, **options)


def message(body: str, **properties: Any) -> Message:
    given = {"message_id": uuid.uuid4().hex, **properties}
    return Message(header=Header(), properties=Properties(**given), data=[body.encode()])


def bodies(found: list[Any]) -> list[str]:
    return [b"".join(each.message.data).decode() for each in found]


def left(guarded: Guarded, name: str) -> tuple[int, int, int]:
    with guarded.administration() as administration:
        found = administration.get_queue_runtime_properties(name)
    return (
        found.active_message_count,
        found.scheduled_message_count,
        found.dead_letter_message_count,
    )


def total(guarded: Guarded, name: str) -> int:
    with guarded.administration() as administration:
        return administration.get_queue_runtime_properties(name).total_message_count
