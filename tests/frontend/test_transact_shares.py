"""What open transactions of one policy leave to others, and what one that timed out keeps."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import Bounds, share
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.transact import Commit, TransactionDispatcher
from tests.frontend.test_transaction_service import Request, Stream, a_send
from tests.frontend.transactions import ID, KEY, FakePartition, directory, send


@pytest.fixture
def dispatcher() -> TransactionDispatcher:
    """All transactions of a front end."""
    partitions: Any = {index: FakePartition(index) for index in range(4)}
    return TransactionDispatcher(partitions, directory(), Metrics())


@pytest.mark.requirement("R455")
async def test_one_policy_leaves_a_tenth_to_others(
    dispatcher: TransactionDispatcher,
) -> None:
    dispatcher._quota.transactions.use(Bounds(20, share(20), 20))
    dispatcher._quota.transaction_bytes.use(Bounds(20_000, share(20_000), 20_000))
    opened = [dispatcher.begin(ID, Holder(f"c{at}", "p")) for at in range(18)]
    with pytest.raises(errors.ServerBusy, match="of this policy"):
        dispatcher.begin(ID, Holder("d", "p"))
    opened.append(dispatcher.begin(ID, Holder("e", "q")))

    dispatcher.collect(opened[0], [send(KEY, body=bytes(17_000))])
    with pytest.raises(errors.ServerBusy, match="of this policy"):
        dispatcher.collect(opened[1], [send(KEY, body=bytes(1_500))])
    dispatcher.collect(opened[-1], [send(KEY, body=bytes(1_500))])

    for each in opened:
        dispatcher.forget(each)
    assert (dispatcher.open(), dispatcher._quota.transaction_bytes.held) == (0, 0)


@pytest.mark.requirement("R455")
async def test_all_policies_together_have_no_more_than_there_is(
    dispatcher: TransactionDispatcher,
) -> None:
    dispatcher._quota.transaction_bytes.use(Bounds(20_000, 20_000, 20_000))
    one, two = (dispatcher.begin(ID, Holder(each, each)) for each in "pq")
    dispatcher.collect(one, [send(KEY, body=bytes(12_000))])

    with pytest.raises(errors.ServerBusy, match="or of all"):
        dispatcher.collect(two, [send(KEY, body=bytes(9_000))])
    dispatcher.collect(two, [send(KEY, body=bytes(5_000))])


@pytest.mark.requirement("R455")
async def test_a_transaction_counts_for_the_policy_of_its_caller() -> None:
    stream = Stream()
    await stream.ask(Request(transaction_id=ID, operations=[a_send()]))
    assert list(stream.transactions._quota.transactions._policies) == ["p"]


@pytest.mark.requirement("R456")
async def test_a_late_commit_that_is_said_to_be_a_repeat_takes_no_room(
    dispatcher: TransactionDispatcher,
) -> None:
    opened, other = (dispatcher.begin(ID, Holder("c", ""), age_ms=1_000) for _ in range(2))
    dispatcher._time_out(opened)
    assert opened.ended is not None

    with pytest.raises(errors.BusError):
        await dispatcher.commit(opened, Commit([send(KEY)], age_ms=1))

    dispatcher.forget(other)
    assert (dispatcher.open(), dispatcher._quota.transaction_bytes.held) == (0, 0)
