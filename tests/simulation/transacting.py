"""Transactions in the simulated bus: clients answer requests, and repeat by id what is unknown."""

from dataclasses import dataclass
from typing import Any

from bendybus.domain import lock_token, partitioning
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import Failed, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef, Settle, Transact
from tests.simulation.bus import Bus
from tests.simulation.messages import Lease
from tests.simulation.partitions import PARTITIONS

REPEAT_MS = 400
TRY_MS = 5_000


@dataclass(eq=False)
class Answering:
    """A transaction that completes a request and sends its answer."""

    number: int
    lease: Lease
    payload: str
    partition: int
    began_ms: int
    # None: not known (yet).
    committed: bool | None = None

    @property
    def transaction_id(self) -> bytes:
        """Its id."""
        return self.number.to_bytes(16, "big")


class TransactingBus(Bus):
    """A bus whose clients also answer requests in transactions."""

    def __init__(self, seed: int, *, silent_crashes: float = 0.02) -> None:
        super().__init__(seed, silent_crashes=silent_crashes)
        self.transactions: list[Answering] = []

    def answer_some(self, count: int) -> None:
        """Answer some of what was received, each in a transaction."""
        self.random.shuffle(self.leases)
        for _ in range(min(count, len(self.leases))):
            lease, number = self.leases.pop(), len(self.transactions) + 1
            partition = lock_token.partition_of(lease.token)
            made = Answering(number, lease, f"answer-{number}", partition, self.now)
            self.transactions.append(made)
            self._try(made)

    def _try(self, transaction: Answering) -> None:
        """Hand it over; again, under its id, until its outcome is known."""
        if transaction.committed is not None:
            return
        ref = EntityRef(self.entity.uid, self.entity.generation)
        body, key = transaction.payload.encode(), key_of(transaction.partition)
        parts: list[Append | Settle] = [
            Append(None, ref, Batch([body], partition_keys=[key])),
            Settle(None, 0, Disposition.COMPLETE, transaction.lease.token),
        ]
        if self.random.random() < 0.5:
            parts.reverse()
        self._command(
            transaction.partition,
            Transact(
                ("transaction", transaction),
                ref,
                transaction.transaction_id,
                parts,
                self.now - transaction.began_ms,
                self.now + TRY_MS,
            ),
        )
        self.after(REPEAT_MS, lambda: self._try(transaction))

    def _answered(self, index: int, to: Any, value: Any) -> None:
        if not (isinstance(to, tuple) and to[0] == "transaction"):
            super()._answered(index, to, value)
            return
        transaction: Answering = to[1]
        if isinstance(value, Failed):
            # Refused for now: only an outcome that the partition remembers ends the repeats.
            return
        assert isinstance(value, Transacted)
        done = value.error is None
        assert transaction.committed in (None, done), "a repeat got another outcome"
        transaction.committed = done
        if done:
            self.completed_numbers.add(transaction.lease.number)


def key_of(partition: int) -> str:
    """Return a key of a partition."""
    keys = (f"key{n}" for n in range(1_000))
    return next(key for key in keys if partitioning.partition_of(key, PARTITIONS) == partition)
