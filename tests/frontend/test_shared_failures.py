"""Failures that many units of a frame share: made once, whatever their number."""

from typing import Any

import pytest

from bendybus.domain import bounds, errors
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns
from bendybus.frontend.core.send import SendOutcome
from bendybus.frontend.listeners import sender_service
from bendybus.v1 import message_pb2, sender_pb2
from bendybus.wire import statuses
from tests.frontend.entities import queue
from tests.frontend.frames import submit
from tests.frontend.test_send import Upstream, sends_of

COUNT = 5_000


def frame(**wrong: Any) -> sender_pb2.SendStreamRequest:
    """Return a frame of single messages."""
    batch = message_pb2.MessageBatch(messages=[b""] * COUNT, **wrong)
    return sender_pb2.SendStreamRequest(
        frame_id=1, entity_path="orders", batch=batch, group_sizes=[1] * COUNT
    )


def test_messages_that_cannot_be_sent_share_their_errors() -> None:
    lives = [-1 - index for index in range(COUNT)]
    batch = message_pb2.MessageBatch(messages=[b""] * COUNT, time_to_live_ms=lives)

    faults = columns.faults(batch)

    assert list(faults) == list(range(COUNT))
    assert "got -2" in faults[1].message
    assert "got" not in faults[COUNT - 1].message
    assert "TimeToLive: must be 0 to" in faults[COUNT - 1].message
    assert len({id(error) for error in faults.values()}) == bounds.FAULTS_SPELT_OUT + 1


async def test_an_answer_spells_out_an_error_that_units_share_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sends = sends_of({partition: Upstream() for partition in range(4)})
    spelt: list[Any] = []
    to_error = statuses.to_error

    def spell_out(error: BusError) -> message_pb2.Error:
        spelt.append(error)
        return to_error(error)

    monkeypatch.setattr(statuses, "to_error", spell_out)
    answers: list[sender_pb2.SendStreamResponse] = []

    submit(sends, frame(time_to_live_ms=[-1] * COUNT), answers.append)

    [answer] = answers
    assert sorted(failure.group for failure in answer.failures) == list(range(COUNT))
    assert {failure.error.reason for failure in answer.failures} == {"INVALID_ARGUMENT"}
    assert len(spelt) == bounds.FAULTS_SPELT_OUT + 1
    assert sends._metrics.user_errors.counts["orders", "INVALID_ARGUMENT"] == COUNT


def test_errors_of_units_keep_their_groups() -> None:
    one, two = (errors.InvalidArgument("a field", text) for text in ("one", "two"))
    outcome = SendOutcome(queue(), [0] * 3, [], {0: one, 1: two, 2: one}, set())

    answer = sender_service.to_response(1, outcome)

    found = [(each.group, each.error.message) for each in answer.failures]
    assert found == [(0, "a field: one"), (1, "a field: two"), (2, "a field: one")]
