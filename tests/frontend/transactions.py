"""Operations of transactions, and partitions that take them, for tests of the front end."""

from typing import Any

import grpc

from bendybus.domain import lock_token, partitioning
from bendybus.domain.directory import Directory
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.transact import Operation, Transaction
from bendybus.frontend.upstreams.unary_calls import SendPart, SettlePart
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue, topic

ID = bytes(range(16))
KEY = "a customer"
HOME = partitioning.partition_of(KEY, 4)
ELSEWHERE = (HOME + 1) % 4


class FakePartition:
    """A partition that keeps what it is asked for, and answers `answers` in turn."""

    available = True
    clock_offset_ms = 0

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.calls = self
        self.requests: list[partition_pb2.TransactRequest] = []
        self.answers: list[Any] = []

    async def Transact(self, request: Any, timeout: float) -> Any:
        """Answer."""
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else _outcomes(len(request.parts))
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Lost(grpc.RpcError):
    """A call that failed with `status`."""

    def __init__(self, status: grpc.StatusCode) -> None:
        super().__init__()
        self._status = status

    def code(self) -> grpc.StatusCode:
        """Return it."""
        return self._status

    def details(self) -> str:
        """Say no more."""
        return "no more is known"

    def trailing_metadata(self) -> tuple[()]:
        """Return none."""
        return ()


def _outcomes(count: int) -> partition_pb2.TransactResponse:
    outcome = partition_pb2.TransactionOutcome(sequence_numbers=[7])
    return partition_pb2.TransactResponse(outcomes=[outcome] * count)


def directory(tier: Tier = Tier.PREMIUM) -> Directory:
    """Return one with queues of every kind that matters here."""
    made = Directory()
    entries = [
        queue("orders"),
        queue("other"),
        queue("plain", partitions=1),
        queue("unique", requires_duplicate_detection=True),
        queue("sessions", requires_session=True),
        queue("plain-sessions", partitions=1, requires_session=True),
        topic("news"),
    ]
    made.update(0, Fingerprint("n", "u", tier, 4, 0), entries, snapshot=True)
    return made


def send(
    *keys: str,
    entity: str = "orders",
    sub_queue: SubQueue = SubQueue.MAIN,
    body: bytes = b"x",
    **columns: Any,
) -> Operation:
    """Return a send of a message for each key."""
    batch = message_pb2.MessageBatch(messages=[body] * len(keys), partition_keys=keys, **columns)
    return Operation(entity, sub_queue, SendPart(batch))


def in_session(*ids: str, entity: str = "orders", key: str = "") -> Operation:
    """Return a send of a message for each session."""
    batch = message_pb2.MessageBatch(messages=[b"x"] * len(ids), session_ids=ids)
    if key:
        batch.partition_keys.extend([key] * len(ids))
    return Operation(entity, SubQueue.MAIN, SendPart(batch))


def settle(
    *numbers: int,
    partition: int = HOME,
    entity: str = "orders",
    disposition: Disposition = Disposition.COMPLETE,
    session: bytes = b"",
) -> Operation:
    """Return the settlement of messages with these numbers."""
    tokens = b"".join(
        lock_token.LockToken(partition, 1, number, 1, 1).to_bytes() for number in numbers
    )
    return Operation(entity, SubQueue.MAIN, SettlePart(disposition, tokens, session_token=session))


def collected(*operations: Operation, tier: Tier = Tier.PREMIUM) -> Transaction:
    """Return a transaction with these operations, collected one after the other."""
    made = Transaction(ID, 0)
    for operation in operations:
        made.collect([operation], directory(tier))
    return made
