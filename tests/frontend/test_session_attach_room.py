"""A receiver that attaches to a session takes of the room for locks."""

import pytest

from bendybus.frontend.core.quota.bounds import TOKENS
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.v1 import receiver_pb2
from tests.frontend.test_session_faults import opening
from tests.frontend.test_sessions import Bus, settle_down, token_of


@pytest.mark.requirement("R651")
async def test_a_receiver_that_attaches_takes_room_for_the_locks_that_it_says_it_has() -> None:
    bus, room = Bus(), Quota().settling
    busy = Holder("another connection", "policy")
    assert room.take(busy, TOKENS.policy)
    held = b"".join(token_of(n) for n in range(100))
    wanted = receiver_pb2.AcceptSession(session_token=token_of(1), held_lock_tokens=held)
    session = opening(bus, wanted, room=room)
    await settle_down()
    assert bus.upstreams[1].kinds() == []

    room.give(busy, TOKENS.policy)
    await settle_down()

    assert bus.upstreams[1].kinds() == ["attach_session"]
    assert room.held == 100
    session.finish()
    await settle_down()
    assert room.held == 0
