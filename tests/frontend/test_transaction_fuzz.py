"""Whatever a request of a transaction says: it is answered, and what is open stays bounded."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bendybus.v1 import message_pb2, transaction_pb2
from tests.contract_messages import batches, messages
from tests.frontend.test_transaction_service import Stream
from tests.frontend.transactions import ID

FUZZ = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
Request = transaction_pb2.TransactRequest


@pytest.mark.requirement("R128")
@FUZZ
@given(
    st.lists(
        st.tuples(messages(Request, depth=2), batches(message_pb2.MessageBatch), st.booleans()),
        max_size=5,
    )
)
async def test_every_request_is_answered(made: list[tuple[Any, Any, bool]]) -> None:
    bus = Stream()
    for request, batch, well_formed in made:
        if well_formed:
            request.transaction_id = ID
            for operation in request.operations:
                kind = operation.WhichOneof("kind")
                if kind is not None:
                    getattr(operation, kind).entity_path = "orders"
                if kind == "send":
                    operation.send.batch.CopyFrom(batch)
        answer = await bus.ask(request)

        assert answer.SerializeToString() is not None
        assert bus.transactions.open() == (0 if answer.ended else bus.transactions.open())
        assert bus.transactions.open() <= 1
    for handed in bus.handed_over:
        # Within the contract of the partition.
        assert handed.SerializeToString()
        assert len(handed.parts) >= 1
    bus.stream.close()
    assert (bus.transactions.open(), bus.transactions._quota.transaction_bytes.held) == (0, 0)
