"""The messages that a batch delete is for."""

from itertools import chain, combinations
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.message_state import EVERY_STATE, MessageState
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import batch_deletes

REQUESTS = [receiver_pb2.DeleteMessagesRequest, partition_pb2.DeleteMessagesRequest]
SETS = [frozenset(each) for each in chain(*(combinations(EVERY_STATE, n) for n in (1, 2, 3)))]


@pytest.mark.requirement("R195")
@pytest.mark.parametrize("make", REQUESTS)
@pytest.mark.parametrize("states", SETS)
def test_states_and_time_are_read_as_they_were_written(
    make: Any, states: frozenset[MessageState]
) -> None:
    request = make()
    batch_deletes.write(request, states, 12_345)

    assert batch_deletes.states(request) == states
    assert batch_deletes.before_ms(request) == 12_345


def test_the_time_is_read_beside_states_too() -> None:
    request = receiver_pb2.DeleteMessagesRequest(
        states=[message_pb2.MESSAGE_STATE_ACTIVE], enqueued_before_ms=12_345
    )

    assert batch_deletes.before_ms(request) == 12_345


def test_an_unknown_state_is_refused() -> None:
    unknown = receiver_pb2.DeleteMessagesRequest()
    unknown.states.append(9)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="active, deferred, scheduled"):
        batch_deletes.states(unknown)
