"""Who a session is for, at the front end: callers who were checked for its entity."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.message_state import ReceiveMode
from tests.frontend.test_session_faults import back, lose
from tests.frontend.test_sessions import Bus, settle_down, token_of


@pytest.mark.requirement("R322")
async def test_a_caller_of_another_entity_changes_nothing_of_a_session() -> None:
    bus = Bus()
    receiver: Any = bus.open()
    token = receiver.shared.session_token
    told = len(bus.upstreams[1].told)
    for call in (
        bus.sessions.attach("others", token, b""),
        bus.sessions.renew("others", token),
    ):
        async with asyncio.timeout(1):
            with pytest.raises(errors.SessionLockLost):
                await call
    async with asyncio.timeout(1):
        await bus.sessions.close("others", token)

    assert (bus.failed, len(bus.upstreams[1].told)) == ([], told)
    back(bus, 1)


@pytest.mark.requirement("R322")
async def test_a_caller_of_another_entity_does_not_keep_a_session_that_is_to_be_closed() -> None:
    bus = Bus()
    receiver: Any = bus.open()
    bus.upstreams[1].available = False
    lose(bus, 1)
    with pytest.raises(errors.PartitionUnavailable):
        await bus.sessions.close("orders", receiver.shared.session_token)

    with pytest.raises(errors.PartitionUnavailable):
        await bus.sessions.attach("others", token_of(1), b"")
    bus.upstreams[1].available = True
    back(bus, 1)

    assert bus.upstreams[1].kinds() == ["close_session"]


@pytest.mark.requirement("R322")
async def test_a_partition_is_told_which_entity_the_caller_was_checked_for() -> None:
    bus = Bus()
    accepting = bus.accept("abc")
    await settle_down()
    partition = bus.entity.partition_of("abc")
    bus.offer(partition, "abc")
    await settle_down()
    bus.result(partition, "confirm_session")
    entity, locked = await accepting
    receiver: Any = bus.sessions.open(
        entity, ReceiveMode.PEEK_LOCK, locked, bus.handed.append, bus.failed.append
    )
    bus.sessions.told(receiver.shared)
    bus.sessions.give_up(receiver.shared)

    for kind in ("confirm_session", "told_session", "close_session"):
        assert bus.upstreams[partition].of(kind)[-1].entity_uid == bus.entity.uid, kind
