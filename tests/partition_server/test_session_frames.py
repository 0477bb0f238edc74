"""Sessions on the internal contract: frames to commands, answers to frames."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bendybus.domain import errors
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.replies import Outbox
from bendybus.partition_server.service import frames
from bendybus.partition_server.state import answers, commands
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

TOKEN = b"t" * 16
REF = partition_pb2.EntityRef(uid="u", generation=3, sub_queue=partition_pb2.SUB_QUEUE_MAIN)


def command(**kind: Any) -> Any:
    """Return the command of a frame."""
    stream: Outbox[Any] = Outbox(lambda value: value)
    [found] = frames.commands_of(partition_pb2.DeliverFramesRequest(**kind), stream)
    return found


def frame(value: Any) -> partition_pb2.DeliverFramesResponse:
    """Return the frame of an answer."""
    return frames.response(value, cast(Any, SimpleNamespace(index=1)))


def test_an_accept_is_by_name_or_for_any_session() -> None:
    by_name = command(
        accept_session=partition_pb2.AcceptSession(ask_id=7, entity=REF, session_id="")
    )
    of_any = command(accept_session=partition_pb2.AcceptSession(ask_id=8, entity=REF))

    assert isinstance(by_name, commands.AcceptSession)
    assert (by_name.ask_id, by_name.entity.uid, by_name.session_id) == (7, "u", "")
    assert (of_any.ask_id, of_any.session_id) == (8, None)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("confirm_session", commands.ConfirmSession),
        ("close_session", commands.CloseSession),
        ("renew_session", commands.RenewSession),
        ("attach_session", commands.AttachSession),
    ],
)
def test_what_is_wanted_of_a_session_lock_is_a_frame_of_its_own(kind: str, made: Any) -> None:
    found = command(**{kind: partition_pb2.SessionRequest(request_id=5, session_token=TOKEN)})

    assert isinstance(found, made)
    assert (found.request_id, found.session_token) == (5, TOKEN)


@pytest.mark.requirement("R242")
@pytest.mark.parametrize("tells", [True, False])
def test_front_ends_say_when_a_receiver_has_been_told(tells: bool) -> None:
    request = partition_pb2.SessionRequest(request_id=5, session_token=TOKEN, tells=tells)
    found = command(confirm_session=request)
    told = command(told_session=partition_pb2.ToldSession(session_token=TOKEN))

    assert found.tells is tells
    assert isinstance(told, commands.ToldSession)
    assert told.session_token == TOKEN


def test_asks_and_settlements_name_the_session_of_their_receiver() -> None:
    ask = command(ask=partition_pb2.Ask(ask_id=1, entity=REF, session_token=TOKEN))
    settle = command(
        settle=partition_pb2.Settle(
            disposition=receiver_pb2.DISPOSITION_COMPLETE, lock_tokens=TOKEN, session_token=TOKEN
        )
    )

    assert ask.session_token == TOKEN
    assert settle.session_token == TOKEN


def test_answers_about_sessions_are_frames() -> None:
    offered = frame(answers.SessionOffered(3, "a", TOKEN, 2_000)).session_offered
    locked = frame(answers.SessionResult(4, 10, 20, 30)).session_result
    lost = frame(answers.SessionResult(5, error=errors.SessionLockLost("gone"))).session_result
    recalled = frame(answers.Recalled(TOKEN + TOKEN)).recalled

    assert (offered.ask_id, offered.session_id) == (3, "a")
    assert (offered.session_token, offered.offer_remaining_ms) == (TOKEN, 2_000)
    assert not locked.HasField("error")
    assert (locked.locked_until_ms, locked.lock_remaining_ms) == (10, 20)
    assert locked.locked_until_monotonic_ms == 30
    assert isinstance(statuses.from_error(lost.error), errors.SessionLockLost)
    assert recalled.lock_tokens == TOKEN + TOKEN
