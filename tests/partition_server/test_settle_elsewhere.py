"""Settlements that name the sub-queue and the message of their lock, as requests of HTTP do."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.sub_queue import SubQueue
from tests.partition_server.driver import Driver

pytestmark = pytest.mark.requirement("R652")
EVERY = (
    Disposition.COMPLETE,
    Disposition.ABANDON,
    Disposition.DEFER,
    Disposition.DEAD_LETTER,
    Disposition.RENEW_LOCK,
    Disposition.RELEASE,
)


def locked(queue: Driver, *, dead_letter: bool = False) -> bytes:
    """Return the token of a message with the id `one`, in the queue or its dead letters."""
    queue.send(b"a", message_ids=["one"])
    [(_, token)] = queue.receive()
    if dead_letter:
        assert not queue.settle(Disposition.DEAD_LETTER, token).failures
        [(_, token)] = queue.receive(dead_letter=True)
    return token


def is_lost(queue: Driver, disposition: Disposition, token: bytes, **where: Any) -> bool:
    """Whether a settlement fails as that of a lock that is lost; any other failure is a defect."""
    failures = queue.settle(disposition, token, **where).failures
    assert all(isinstance(error, errors.MessageLockLost) for _, error in failures)
    return bool(failures)


@pytest.mark.parametrize("disposition", EVERY)
def test_a_lock_of_another_sub_queue_is_lost_and_stays(
    queue: Driver, disposition: Disposition
) -> None:
    uid = queue.ref().uid
    token = locked(queue)

    assert is_lost(queue, disposition, token, entity_uid=uid, sub_queue=SubQueue.DEAD_LETTER)

    assert not is_lost(queue, Disposition.COMPLETE, token, entity_uid=uid, sub_queue=SubQueue.MAIN)


@pytest.mark.parametrize("disposition", EVERY)
def test_a_lock_of_a_dead_letter_is_none_of_its_queue(
    queue: Driver, disposition: Disposition
) -> None:
    token = locked(queue, dead_letter=True)

    assert is_lost(queue, disposition, token, sub_queue=SubQueue.MAIN)

    assert not is_lost(queue, Disposition.COMPLETE, token, sub_queue=SubQueue.DEAD_LETTER)


@pytest.mark.parametrize("disposition", EVERY)
def test_a_lock_of_another_message_is_lost_and_stays(
    queue: Driver, disposition: Disposition
) -> None:
    token = locked(queue)

    for other in ("two", "on", "ONE"):
        assert is_lost(queue, disposition, token, sub_queue=SubQueue.MAIN, message_id=other)

    assert not is_lost(queue, disposition, token, sub_queue=SubQueue.MAIN, message_id="one")


def test_who_names_neither_settles_any(queue: Driver) -> None:
    token = locked(queue, dead_letter=True)

    assert not is_lost(queue, Disposition.COMPLETE, token)
