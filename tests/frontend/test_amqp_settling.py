"""Settlements by management requests over AMQP count until partitions answer, as over gRPC."""

from typing import Any
from uuid import UUID

import pytest

from bendybus.amqp import sections, values
from bendybus.amqp.performatives import Attach, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Array, Ulong
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.domain.lock_token import TOKEN_BYTES
from bendybus.frontend.core.quota.bounds import TOKENS
from bendybus.frontend.listeners.amqp import lock_names
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import Listening
from tests.frontend.entities import queue
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, attach_of, flow_of

LOCKS = 2_500
REQUESTS = 30


class Partition:
    """Takes settlements, and answers none of them."""

    partition = 0
    delivers = available = True

    def __init__(self) -> None:
        self.locks = 0

    def settle(self, request: Any, *, renewal: bool, waited: bool = False) -> bool:
        self.locks += len(request.settle.lock_tokens) // TOKEN_BYTES
        return True


def settlement(number: int) -> bytes:
    """Return a request that completes messages whose locks are made up."""
    tokens = [b"\0\0" + each.to_bytes(14, "big") for each in range(LOCKS)]
    names = [UUID(bytes=lock_names.name_of(token)) for token in tokens]
    return sections.encode(
        Message(
            properties=Properties(message_id=Ulong(number)),
            application_properties={"operation": "com.microsoft:update-disposition"},
            value={"disposition-status": "completed", "lock-tokens": Array(values.UUID, names)},
            has_value=True,
        )
    )


@pytest.mark.requirement("R648")
def test_locks_of_management_requests_are_bounded_until_partitions_answer() -> None:
    partition: Any = Partition()
    with Listening() as listening:
        front_end = listening.listener.front_end

        def begin() -> None:
            fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 1, 0)
            made = [queue("q", partitions=1, home=0)]
            front_end.directory.update(0, fingerprint, made, snapshot=True)
            front_end.upstreams[0] = partition

        def end() -> None:
            front_end.settles.lost(0, "the test ends")
            front_end.upstreams.clear()

        listening.ask(begin)
        with listening.raw().open() as raw:
            raw.send(attach_of("q/$management", SENDER, 0), attach_of("q/$management", RECEIVER, 1))
            raw.wait(Attach, lambda each: each.handle == 1)
            raw.send(flow_of(1, REQUESTS))
            for at in range(REQUESTS):
                raw.write(framed(Transfer(0, at, at.to_bytes(4), 0, settled=True), settlement(at)))
            eventually(
                lambda: listening.ask(lambda: bool(front_end.quota.settling._waiting)), within_s=20
            )
            told, held = listening.ask(lambda: (partition.locks, front_end.quota.settling.held))
            listening.ask(end)

    assert told == held == TOKENS.connection
