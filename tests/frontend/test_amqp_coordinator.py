"""Transactions of AMQP, without any peer but the engine's: collected, then committed or not."""

from typing import Any

import pytest

from bendybus.amqp import events, sections
from bendybus.amqp.composites import as_written, known
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    Error,
    Rejected,
    Source,
    TransactionalState,
)
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.transact import Operation
from bendybus.frontend.listeners.amqp import coordinator
from bendybus.frontend.listeners.amqp.coordinator import CoordinatorLink, TransactionGone
from bendybus.frontend.upstreams.unary_calls import SendPart
from bendybus.v1 import message_pb2
from tests.amqp.peers import Peer

OPERATION = Operation("orders", SubQueue.MAIN, SendPart(message_pb2.MessageBatch()))


class Transaction:
    def __init__(self, transaction_id: bytes) -> None:
        self.transaction_id = transaction_id
        self.operations: list[Operation] = []


class Opened:
    def __init__(self, transaction_id: bytes) -> None:
        self.transaction = Transaction(transaction_id)
        self.holder = Holder("", "")
        self.ended: BusError | None = None


class Transactions:
    """Stands for the dispatcher: notes what is asked of it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.begun, self.most = 0, 100
        self.outcome: BusError | None = None

    def begin(self, transaction_id: bytes, _: Holder) -> Opened:
        self.begun += 1
        if self.begun > self.most:
            raise errors.ServerBusy("too many transactions")
        return Opened(transaction_id)

    def collect(self, opened: Opened, operations: list[Operation]) -> None:
        if opened.ended is not None:
            raise opened.ended
        opened.transaction.operations += operations

    async def commit(self, opened: Opened, asked: Any) -> None:
        self.log.append(f"commit {len(opened.transaction.operations)}")
        if self.outcome is not None:
            raise self.outcome

    def forget(self, opened: Opened, outcome: str = "rolled-back") -> None:
        self.log.append(outcome)


class Connection:
    """Stands for the connection of the link."""

    def __init__(self) -> None:
        self.transactions = Transactions()
        self.front_end = self
        self.coordinators: set[CoordinatorLink] = set()
        self.holder = Holder("", "")
        self.commits = 0
        self.claims = self
        self.any = True

    def write_soon(self) -> None:
        pass


class Client:
    """A peer with a coordinator's link."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.peer = Peer()
        self.peer.open()
        attach = Attach("control", 0, False, source=Source(), target=Coordinator())
        self.peer.send(attach)
        [attached] = self.peer.heard(events.Attached)
        attached.link.accept()
        made: Any = CoordinatorLink(self.connection, attached.link)  # type: ignore[arg-type]
        self.link: CoordinatorLink = made
        self.connection.coordinators.add(made)
        self.link.begin()
        self.attached = attached.link
        self._sent = 0

    def ask(self, request: Declare | Discharge) -> None:
        payload = sections.encode(sections.Message(value=as_written(request), has_value=True))
        self.peer.transfer(delivery_id=self._sent, payload=payload)
        self._sent += 1
        self.link.delivered(self.peer.heard(events.Delivered)[-1])
        self.peer.take()

    def told(self) -> Any:
        """Return the state of the last answer."""
        self.peer.take()
        state = known(self.peer.said(Disposition)[-1].state)
        if isinstance(state, Rejected):
            state.error = known(state.error)
        return state

    async def done(self) -> None:
        for task in list(self.link._commits):
            await task

    def declare(self) -> bytes:
        self.ask(Declare())
        declared = self.told()
        assert isinstance(declared, Declared)
        return declared.txn_id


def sequel(told: list[str]) -> coordinator.Sequel:
    return coordinator.Sequel(lambda: told.append("committed"), lambda: told.append("rolled back"))


@pytest.mark.requirement("R492")
async def test_what_was_collected_is_committed_and_then_told() -> None:
    client = Client()
    told: list[str] = []
    id_ = client.declare()
    coordinators = client.connection.coordinators
    state = TransactionalState(id_)
    coordinator.collect(coordinators, state, OPERATION, client.attached, sequel(told))

    client.ask(Discharge(id_))
    assert not told
    await client.done()

    assert client.connection.transactions.log == ["commit 1"]
    assert told == ["committed"]
    assert client.told() == Accepted()


@pytest.mark.requirement("R492")
async def test_a_commit_is_under_way_until_it_is_told() -> None:
    client = Client()
    transaction_id = client.declare()
    client.link.collect(transaction_id, OPERATION, client.attached, None)
    client.connection.transactions.outcome = errors.InvalidOperation("no.")

    client.ask(Discharge(transaction_id, fail=False))
    before = client.connection.commits
    await client.done()

    assert (before, client.connection.commits) == (1, 0)


@pytest.mark.requirement("R492")
async def test_a_discharge_that_fails_rolls_back() -> None:
    client = Client()
    told: list[str] = []
    id_ = client.declare()
    coordinators, state = client.connection.coordinators, TransactionalState(id_)
    coordinator.collect(coordinators, state, OPERATION, client.attached, sequel(told))

    client.ask(Discharge(id_, fail=True))
    await client.done()

    assert client.connection.transactions.log == ["rolled-back"]
    assert told == ["rolled back"]
    assert client.told() == Accepted()


@pytest.mark.requirement("R514")
async def test_what_was_collected_is_rolled_back_if_the_commit_fails_or_the_link_ends() -> None:
    client = Client()
    told: list[str] = []
    refused, abandoned = client.declare(), client.declare()
    client.link.collect(refused, OPERATION, client.attached, sequel(told))
    client.link.collect(abandoned, OPERATION, client.attached, sequel(told))
    client.connection.transactions.outcome = errors.InvalidOperation("no.")

    client.ask(Discharge(refused))
    await client.done()
    after_the_commit = list(told)
    client.link.closed()

    assert after_the_commit == ["rolled back"]
    assert told == ["rolled back"] * 2


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (errors.MessageLockLost("lost"), coordinator.ROLLBACK),
        (errors.QuotaExceeded("full"), coordinator.ROLLBACK),
    ],
)
async def test_a_commit_that_is_refused_says_that_it_was_rolled_back(
    error: BusError, condition: str
) -> None:
    client = Client()
    client.connection.transactions.outcome = error
    id_ = client.declare()
    coordinator.collect(
        client.connection.coordinators, TransactionalState(id_), OPERATION, client.attached
    )

    client.ask(Discharge(id_))
    await client.done()

    assert client.told() == Rejected(Error(condition, error.message))


async def test_a_commit_of_unknown_outcome_is_never_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "PAUSE_S", 0.01)
    monkeypatch.setattr(coordinator, "REPEAT_S", 0.05)
    client = Client()
    client.connection.transactions.outcome = errors.OutcomeUnknown("who knows")
    id_ = client.declare()
    coordinator.collect(
        client.connection.coordinators, TransactionalState(id_), OPERATION, client.attached
    )

    client.ask(Discharge(id_))
    await client.done()

    assert client.told().error.condition == "com.microsoft:timeout"
    assert len(client.connection.transactions.log) > 1


@pytest.mark.requirement("R638")
async def test_a_commit_of_unknown_outcome_that_cannot_be_repeated_stays_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "PAUSE_S", 0.01)
    client = Client()
    client.connection.transactions.outcome = errors.OutcomeUnknown("who knows")
    client.connection.transactions.most = 1
    id_ = client.declare()
    state = TransactionalState(id_)
    coordinator.collect(client.connection.coordinators, state, OPERATION, client.attached)

    client.ask(Discharge(id_))
    await client.done()

    assert client.told().error.condition == "com.microsoft:timeout"


@pytest.mark.requirement("R492")
async def test_a_transaction_of_which_a_part_was_refused_is_not_committed() -> None:
    client = Client()
    id_ = client.declare()
    coordinators, state = client.connection.coordinators, TransactionalState(id_)
    coordinator.collect(coordinators, state, OPERATION, client.attached)
    coordinator.spoil(coordinators, state, errors.InvalidOperation("too many entities"))

    client.ask(Discharge(id_))
    await client.done()

    told = client.told()
    assert told.error.condition == coordinator.ROLLBACK
    assert "too many entities" in told.error.description
    assert client.connection.transactions.log == ["rolled-back"]


async def test_an_id_that_is_not_open_is_unknown() -> None:
    client = Client()
    id_ = client.declare()
    client.ask(Discharge(id_, fail=True))

    client.ask(Discharge(id_))

    assert client.told().error.condition == coordinator.UNKNOWN_ID
    with pytest.raises(TransactionGone) as raised:
        coordinator.collect(
            client.connection.coordinators, TransactionalState(id_), OPERATION, client.attached
        )
    assert coordinator.refusal(raised.value, "").condition == coordinator.UNKNOWN_ID


async def test_a_transaction_whose_time_is_over_says_so() -> None:
    client = Client()
    id_ = client.declare()
    client.link._open[id_].ended = errors.InvalidOperation("too late")

    with pytest.raises(TransactionGone) as raised:
        coordinator.collect(
            client.connection.coordinators, TransactionalState(id_), OPERATION, client.attached
        )

    assert coordinator.refusal(raised.value, "").condition == coordinator.TIMEOUT


@pytest.mark.requirement("R492")
async def test_a_link_that_ends_rolls_back_what_is_open() -> None:
    client = Client()
    client.declare()
    client.declare()

    client.peer.send(Detach(0, True))
    client.link.closed()

    assert client.connection.transactions.log == ["rolled-back"] * 2
    assert client.connection.coordinators == set()


@pytest.mark.requirement("R492")
async def test_what_is_declared_before_any_token_is_opened_with_its_first_operation() -> None:
    client = Client()
    client.connection.any = False
    id_ = client.declare()
    assert client.connection.transactions.begun == 0
    client.connection.any = True

    coordinator.collect(
        client.connection.coordinators, TransactionalState(id_), OPERATION, client.attached
    )
    client.ask(Discharge(id_))
    await client.done()

    assert client.connection.transactions.log == ["commit 1"]
    assert client.told() == Accepted()


async def test_what_is_declared_before_any_token_is_not_committed_if_a_part_was_refused() -> None:
    client = Client()
    client.connection.any = False
    id_ = client.declare()
    coordinators, state = client.connection.coordinators, TransactionalState(id_)
    coordinator.spoil(coordinators, state, errors.Unauthenticated("no token"))

    client.ask(Discharge(id_))

    assert client.told().error.condition == coordinator.ROLLBACK
    client.ask(Discharge(id_))
    assert client.told().error.condition == coordinator.UNKNOWN_ID


async def test_before_any_token_one_transaction_may_be_declared() -> None:
    client = Client()
    client.connection.any = False
    id_ = client.declare()

    client.ask(Declare())

    assert client.told().error.condition == "amqp:unauthorized-access"
    client.ask(Discharge(id_))
    assert client.told() == Accepted()
    client.declare()
    assert client.connection.transactions.begun == 0
