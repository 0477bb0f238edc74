"""Operations of session receivers. See operation_table."""

import time

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import SessionCannotBeLockedError, SessionLockLostError

from tests.azure_sdk.operation_table import (
    Entity,
    complete_all,
    operation,
    several,
    take,
    texts,
)


@operation
def session(entity: Entity) -> None:
    for name in ("a", "b"):
        entity.send(*several(5, session_id=name))
    for name in ("a", "b"):
        found = complete_all(entity.receiver(session_id=name), 5)
        assert texts(found) == [*map(str, range(5))]
        assert {each.session_id for each in found} == {name}


@operation
def next_session(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x", session_id="only"))
    receiver = entity.receiver(session_id=NEXT_AVAILABLE_SESSION)
    assert receiver.session.session_id == "only"
    complete_all(receiver, 1)


@operation
def held_session(entity: Entity) -> None:
    with entity.new_receiver(session_id="a"), pytest.raises(SessionCannotBeLockedError):
        entity.receiver(session_id="a")
    assert entity.receiver(session_id="a").session.session_id == "a"


@operation
def session_state(entity: Entity) -> None:
    with entity.new_receiver(session_id="a") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state(b"kept")
    state = entity.receiver(session_id="a").session
    assert state.get_state() == b"kept"
    state.set_state(None)
    assert state.get_state() is None


@operation
def renew_session(entity: Entity) -> None:
    state = entity.receiver(session_id="a").session
    before = state.locked_until_utc
    assert state.renew_lock() > before


@operation
def lost_session(entity: Entity) -> None:
    entity.send(ServiceBusMessage("x", session_id="a"))
    receiver = entity.receiver(session_id="a")
    [message] = take(receiver, 1)
    time.sleep(5.5)
    with pytest.raises(SessionLockLostError):
        receiver.complete_message(message)
    [again] = complete_all(entity.receiver(session_id="a"), 1)
    assert again.delivery_count == 1


@operation
def settle_in_session(entity: Entity) -> None:
    entity.send(*several(3, session_id="a"), ServiceBusMessage("other", session_id="b"))
    receiver = entity.receiver(session_id="a")
    assert texts(receiver.peek_messages(max_message_count=10)) == ["0", "1", "2"]
    [first] = take(receiver, 1)
    receiver.abandon_message(first)
    first, second, third = take(receiver, 3)
    assert (str(first), first.delivery_count) == ("0", 1)
    receiver.complete_message(first)
    receiver.defer_message(second)
    receiver.dead_letter_message(third)
    [deferred] = receiver.receive_deferred_messages(second.sequence_number)
    receiver.complete_message(deferred)


@operation
def list_sessions(entity: Entity) -> None:
    names = [f"session {number:02d}" for number in range(12)]
    entity.send(*(ServiceBusMessage("x", session_id=name) for name in names))
    assert sorted(entity.listening.list_queue_sessions(entity.name)) == names
