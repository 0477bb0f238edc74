"""Transactions of one connection: declared and discharged on a coordinator's link.

    declare ──► declared(txn-id)
    transfer, disposition with txn-id ──► collected, and confirmed; deliveries are settled later,
                                          at the commit
    one that is refused ──► the transaction can only be rolled back: a client that does not wait
                            for outcomes, or settled first, learns it from its discharge
    requests that take time         ──► a commit that came after them waits for them
    discharge(txn-id) ──► committed, rolled back (with the reason), or com.microsoft:timeout
    rolled back ──► deliveries that the client has settled, as JMS does, come again, counted; it can
                    settle the others otherwise
    the coordinator's link, its session or the connection ends ──► rolled back

A transaction may span several entities only for links of the session in which its coordinator is.
Where the coordinator was attached before any entity, as SDKs do that are asked for transactions
across entities, the first entity of the session is the one that all others are reached through:
receivers of others are refused there.

The SDK for Java declares before it puts a token. Until then a connection may have one transaction,
which is opened with its first operation: without a token there is none.

Source: AMQP 1.0, part 4. A discharge whose outcome is unknown is repeated here under the same id.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bendybus.amqp import sections
from bendybus.amqp.composites import Composite, known
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.events import Delivered
from bendybus.amqp.links import IncomingLink, Link, OutgoingLink
from bendybus.amqp.performatives import (
    Accepted,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
)
from bendybus.domain import limits, transactions
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError, OutcomeUnknown, Unauthenticated
from bendybus.frontend.core.transact import Commit, Open, Operation, in_doubt
from bendybus.frontend.listeners.amqp import conditions

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

UNKNOWN_ID: Final = "amqp:transaction:unknown-id"
ROLLBACK: Final = "amqp:transaction:rollback"
TIMEOUT: Final = "amqp:transaction:timeout"
CREDIT: Final = 100
# A commit of unknown outcome is repeated after each pause, for this long.
PAUSE_S: Final = 0.5
REPEAT_S: Final = 60.0


class TransactionGone(BusError):
    """Raised when an operation names a transaction that is not open."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition


class Sequel(NamedTuple):
    """What follows an operation: once its transaction is committed, or if it is rolled back."""

    committed: Callable[[], None]
    rolled_back: Callable[[], None]


class CoordinatorLink:
    """See the module."""

    def __init__(self, connection: "ClientConnection", link: IncomingLink) -> None:
        self._connection = connection
        self._link = link
        self._open: dict[bytes, Open] = {}
        # Declared without a token.
        self._promised: set[bytes] = set()
        self._commits: set[asyncio.Task[None]] = set()
        # By transaction: what follows its operations.
        self._sequels: dict[bytes, list[Sequel]] = {}
        # Why a part of a transaction was refused, which therefore cannot be committed.
        self._refused: dict[bytes, BusError] = {}
        # By transaction: requests under way that came before its discharge; those that are to be
        # committed once their requests are done.
        self._requests: dict[bytes, set[asyncio.Task[None]]] = {}
        self._waiting: set[bytes] = set()

        # The first entity of a session that begins with this link; "": none yet.
        self._leads = link.session.links == (link,)
        self._first_entity = ""

    def begin(self) -> None:
        """Grant credit."""
        self._link.grant(CREDIT)

    def attached(self, link: Link, entity: Entity) -> None:
        """Take note that a link is attached, which may be of another session.

        Raises InvalidOperation for a receiver of another entity than the session's first.
        """
        if not self._leads or link.session is not self._link.session:
            return
        name = entity.top_level_name
        if self._first_entity and isinstance(link, OutgoingLink):
            transactions.check_receives(self._first_entity, name)
        self._first_entity = self._first_entity or name

    def credit_changed(self) -> None:
        """Let more requests come, if there is little credit left."""
        if self._link.credit < CREDIT // 2:
            self._link.grant(CREDIT)

    def delivered(self, event: Delivered) -> None:
        """Take a declaration or a discharge."""
        self.credit_changed()
        try:
            asked = known(sections.decode(event.payload).value)
        except DecodeError as error:
            self._say(event, Rejected(Error("amqp:decode-error", str(error))))
            return
        if isinstance(asked, Declare):
            self._declare(event)
        elif isinstance(asked, Discharge):
            self._discharge(event, asked)
        else:
            told = Error("amqp:not-allowed", "a coordinator takes declare and discharge")
            self._say(event, Rejected(told))

    def collect(
        self, transaction_id: bytes, operation: Operation, link: Link, sequel: Sequel | None
    ) -> None:
        """Add an operation that came on a link to a transaction. Raises why it is refused."""
        operation = replace(operation, spans=link.session is self._link.session)
        if transaction_id in self._promised:
            self._begin(transaction_id)
            self._promised.discard(transaction_id)
        opened = self._open[transaction_id]
        try:
            self._connection.front_end.transactions.collect(opened, [operation])
        except BusError as error:
            if opened.ended is None:
                raise
            raise TransactionGone(TIMEOUT, error.message) from error
        if sequel is not None:
            self._sequels.setdefault(transaction_id, []).append(sequel)

    def spoil(self, transaction_id: bytes, error: BusError) -> None:
        """Let a transaction not be committed: a part of it was refused."""
        self._refused.setdefault(transaction_id, error)

    def expect(self, transaction_id: bytes, request: asyncio.Task[None]) -> None:
        """Take note of a request under way that adds to a transaction."""
        requests = self._requests.setdefault(transaction_id, set())
        requests.add(request)

        def over(task: asyncio.Task[None]) -> None:
            requests.discard(task)
            if not requests and self._requests.get(transaction_id) is requests:
                del self._requests[transaction_id]

        request.add_done_callback(over)

    def has(self, transaction_id: bytes) -> bool:
        """Whether a transaction is open on this link."""
        return transaction_id in self._open or transaction_id in self._promised

    @property
    def promised(self) -> bool:
        """Whether a transaction is declared that is opened with its first operation."""
        return bool(self._promised)

    def closed(self, *, lost: bool = False) -> None:
        """Take note that the link is detached: what is open is rolled back."""
        self._connection.coordinators.discard(self)
        opened, self._open = self._open, {}
        self._promised.clear()
        sequels, self._sequels = self._sequels, {}
        self._refused.clear()
        self._requests.clear()
        for each in opened.values():
            self._connection.front_end.transactions.forget(each)
        for transaction in sequels.values():
            _roll_back(transaction)

    def _declare(self, event: Delivered) -> None:
        transaction_id = os.urandom(limits.TRANSACTION_ID_BYTES)
        try:
            if self._connection.claims.any:
                self._begin(transaction_id)
            else:
                self._promise(transaction_id)
        except BusError as error:
            self._say(event, Rejected(conditions.of(error)))
        else:
            self._say(event, Declared(transaction_id))

    def _begin(self, transaction_id: bytes) -> None:
        self._open[transaction_id] = self._connection.front_end.transactions.begin(
            transaction_id, self._connection.holder
        )

    def _promise(self, transaction_id: bytes) -> None:
        if any(each.promised for each in self._connection.coordinators):
            raise Unauthenticated("more transactions need a token. Put one to $cbs first.")
        self._promised.add(transaction_id)

    def _discharge(self, event: Delivered, asked: Discharge) -> None:
        if not self.has(asked.txn_id) or asked.txn_id in self._waiting:
            self._say(event, Rejected(Error(UNKNOWN_ID, "the transaction is not open here")))
            return
        requests = self._requests.pop(asked.txn_id, None)
        if requests and not asked.fail:
            self._waiting.add(asked.txn_id)
            self._start(self._discharge_after(requests, event, asked))
            return
        self._promised.discard(asked.txn_id)
        opened = self._open.pop(asked.txn_id, None)
        sequels = self._sequels.pop(asked.txn_id, [])
        refused = self._refused.pop(asked.txn_id, None)
        if opened is None or asked.fail or refused is not None:
            if opened is not None:
                self._connection.front_end.transactions.forget(opened)
            _roll_back(sequels)
            if asked.fail or refused is None:
                self._say(event, Accepted())
            else:
                text = f"a part of the transaction was refused: {refused.message}"
                self._say(event, Rejected(Error(ROLLBACK, text)))
            return
        # Not cancelled with the connection: the commit may be done already.
        self._start(self._commit(event, opened, sequels))

    def _start(self, commit: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(commit, name="amqp-commit")
        self._commits.add(task)
        self._connection.commits += 1
        task.add_done_callback(self._commits.discard)

    async def _discharge_after(
        self, requests: Iterable[asyncio.Task[None]], event: Delivered, asked: Discharge
    ) -> None:
        """Commit when the requests are done that the client did not wait for."""
        try:
            await asyncio.wait(list(requests))
        finally:
            self._waiting.discard(asked.txn_id)
            self._connection.commits -= 1
        self._discharge(event, asked)
        self._connection.write_soon()

    async def _commit(self, event: Delivered, opened: Open, sequels: Sequence[Sequel]) -> None:
        try:
            if opened.transaction.operations:
                await self._repeated(opened)
            else:
                self._connection.front_end.transactions.forget(opened, "committed")
        except OutcomeUnknown as error:
            self._say(event, Rejected(conditions.of(error)))
        except BusError as error:
            _roll_back(sequels)
            condition = TIMEOUT if opened.ended is not None else ROLLBACK
            self._say(event, Rejected(Error(condition, error.message)))
        else:
            for each in sequels:
                each.committed()
            self._say(event, Accepted())
        finally:
            self._connection.commits -= 1
        self._connection.write_soon()

    async def _repeated(self, opened: Open) -> None:
        """Commit, and repeat while the outcome is unknown. Raises the reason if it is not done."""
        transactions, loop = self._connection.front_end.transactions, asyncio.get_running_loop()
        began_s = loop.time()
        operations = list(opened.transaction.operations)
        commit = Commit()
        while True:
            try:
                await transactions.commit(opened, commit)
            except OutcomeUnknown:
                if loop.time() + PAUSE_S >= began_s + REPEAT_S:
                    raise
            else:
                return
            await asyncio.sleep(PAUSE_S)
            age_ms = round((loop.time() - began_s) * 1_000)
            try:
                opened = transactions.begin(opened.transaction.transaction_id, opened.holder)
            except BusError as error:
                raise in_doubt(error) from error
            commit = Commit(operations, age_ms=age_ms)

    def _say(self, event: Delivered, state: Composite) -> None:
        if self._link.is_open and not event.settled:
            self._link.session.settle(event.delivery_id, state)


def collect(
    coordinators: Iterable[CoordinatorLink],
    state: TransactionalState,
    operation: Operation,
    link: Link,
    sequel: Sequel | None = None,
) -> None:
    """Add an operation that came on `link` to the transaction that a state names.

    Raises why it is refused.
    """
    find(coordinators, state).collect(state.txn_id, operation, link, sequel)


def find(coordinators: Iterable[CoordinatorLink], state: TransactionalState) -> CoordinatorLink:
    """Return the link of the transaction that a state names. Raises TransactionGone."""
    for each in coordinators:
        if each.has(state.txn_id):
            return each
    raise TransactionGone(UNKNOWN_ID, "the transaction is not open on this connection.")


def expect(
    coordinators: Iterable[CoordinatorLink], state: TransactionalState, request: asyncio.Task[None]
) -> None:
    """Take note of a request that adds to the transaction that a state names."""
    for each in coordinators:
        if each.has(state.txn_id):
            each.expect(state.txn_id, request)


def spoil(
    coordinators: Iterable[CoordinatorLink], state: TransactionalState, error: BusError
) -> None:
    """Take note that a part of the transaction that a state names was refused."""
    for each in coordinators:
        if each.has(state.txn_id) and not isinstance(error, TransactionGone):
            each.spoil(state.txn_id, error)


def refusal(error: BusError, path: str) -> Error:
    """Return why an operation of a transaction is refused."""
    if isinstance(error, TransactionGone):
        return Error(error.condition, error.message)
    return conditions.of(error, path)


def _roll_back(sequels: Iterable[Sequel]) -> None:
    for each in sequels:
        each.rolled_back()
