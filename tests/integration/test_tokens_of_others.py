"""Each field of a call that carries a token, with a token of an entity that the call is not about.

The receiver that has the session keeps it, whatever others try: its lock, its messages, its state.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from bendybus.client import ServiceBusClient, ServiceBusReceiver
from bendybus.domain import lock_token
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.security.authenticator import RULES
from bendybus.v1 import receiver_pb2, receiver_pb2_grpc, transaction_pb2, transaction_pb2_grpc
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT
from tests import sequence_numbers
from tests.integration.test_sessions import accept, bodies, send

Frame = receiver_pb2.ReceiveStreamRequest
Disposition = receiver_pb2.Disposition


class Thief:
    """A caller who may receive from `own`, and has the tokens of a session of another queue."""

    def __init__(self, channel: grpc.Channel, own: str, session: bytes, message: bytes) -> None:
        self.receiver = receiver_pb2_grpc.ReceiverServiceStub(channel)
        self.transactions = transaction_pb2_grpc.TransactionServiceStub(channel)
        self.own, self.session, self.message = own, session, message

    def refused(self, call: Any, request: Any) -> str:
        """Return the reason for which a call is refused."""
        with pytest.raises(grpc.RpcError) as refused:
            call(request, timeout=30)
        return statuses.from_rpc_error(refused.value).reason

    def stream(self, first: Frame, *then: Frame, wait: bool = False) -> list[Any]:
        """Return what a stream of a receiver answers, with its error if it has one.

        `wait`: until the first frame is answered.
        """
        opened, done = threading.Event(), threading.Event()
        if not wait:
            opened.set()

        def said() -> Iterator[Frame]:
            yield first
            opened.wait(30)
            yield from then
            done.wait(30)

        answers: list[Any] = []
        call = self.receiver.ReceiveStream(said(), timeout=30, metadata=(CLIENT.said,))
        try:
            for each in call:
                answers += [each, *each.further]
                opened.set()
                if each.HasField("session_closed") or each.HasField("settle_result"):
                    break
        except grpc.RpcError as error:
            answers.append(statuses.from_rpc_error(error).reason)
        finally:
            opened.set()
            done.set()
            call.cancel()
        return answers

    def open(self, **session: Any) -> Frame:
        """Return the frame that opens a receiver of the thief's own queue."""
        accepted = receiver_pb2.AcceptSession(**session)
        return Frame(open=receiver_pb2.OpenReceiver(entity_path=self.own, session=accepted))


def attach(thief: Thief) -> None:
    """Attach to the session, and close it."""
    [refused] = thief.stream(thief.open(session_token=thief.session))
    assert "SESSION_LOCK_LOST" in str(refused)
    # Before the answer to the first frame, too.
    close = Frame(close_session=receiver_pb2.CloseSession())
    thief.stream(thief.open(session_token=thief.session), close)


def hold(thief: Thief) -> None:
    """Attach to a session of one's own, and call the messages of another one's held."""
    settled = Frame(settle=receiver_pb2.SettleFrame(frame_id=1))
    [opened, *_] = thief.stream(thief.open(session_id="own"), settled, wait=True)
    token = opened.opened.session.session_token
    again = thief.open(session_token=token, held_lock_tokens=thief.message)
    [opened, *_] = thief.stream(again, settled, wait=True)
    assert opened.opened.session.session_token == token


def settle(thief: Thief) -> None:
    """Settle the message on the stream of a receiver of one's own queue."""
    frame = receiver_pb2.SettleFrame(
        frame_id=1, disposition=Disposition.DISPOSITION_COMPLETE, lock_tokens=thief.message
    )
    answers = thief.stream(thief.open(session_id="own"), Frame(settle=frame), wait=True)
    results = [each.settle_result for each in answers if each.HasField("settle_result")]
    assert [failure.indexes for failure in results[0].failures] == [[0]]


def settle_by_text(thief: Thief) -> None:
    """Only those who may receive from all entities settle without naming one."""
    method = grpc_methods.METHODS["/bendybus.v1.ReceiverService/Settle"]
    assert method.operation is not None
    assert RULES[method.operation].whole_namespace


def by_call(name: str) -> Callable[[Thief], None]:
    """Name the session in a call of its own."""

    def touch(thief: Thief) -> None:
        request = getattr(receiver_pb2, f"{name}Request")(
            entity_path=thief.own, session_token=thief.session
        )
        if name == "ReceiveDeferred":
            # A number that only the session's partition can have given.
            partition = lock_token.partition_of(thief.session)
            request.sequence_numbers.append(sequence_numbers.of(partition, 1))
        assert thief.refused(getattr(thief.receiver, name), request) == "SESSION_LOCK_LOST"

    return touch


def transact(**named: bytes) -> Callable[[Thief], None]:
    """Settle the message in a transaction of one's own queue."""

    def touch(thief: Thief) -> None:
        settled = transaction_pb2.TransactionSettle(
            entity_path=thief.own,
            disposition=Disposition.DISPOSITION_COMPLETE,
            lock_tokens=thief.message,
            session_token=thief.session if "session_token" in named else b"",
        )
        request = transaction_pb2.TransactRequest(
            transaction_id=b"t" * 16,
            operations=[transaction_pb2.TransactionOperation(settle=settled)],
            commit=transaction_pb2.TransactionCommit(),
        )
        [answer] = thief.transactions.Transact(iter([request]), timeout=30, metadata=(CLIENT.said,))
        assert "LOCK_LOST" in answer.error.reason

    return touch


ATTEMPTS: dict[str, Callable[[Thief], None]] = {
    "AcceptSession.session_token": attach,
    "AcceptSession.held_lock_tokens": hold,
    "SettleFrame.lock_tokens": settle,
    "SettleRequest.lock_tokens": settle_by_text,
    "ReceiveDeferredRequest.session_token": by_call("ReceiveDeferred"),
    "RenewSessionLockRequest.session_token": by_call("RenewSessionLock"),
    "GetSessionStateRequest.session_token": by_call("GetSessionState"),
    "SetSessionStateRequest.session_token": by_call("SetSessionState"),
    "TransactionSettle.lock_tokens": transact(),
    "TransactionSettle.session_token": transact(session_token=b""),
}


def carriers(message: Descriptor | None, seen: set[str]) -> Iterator[str]:
    """Yield the fields of a request that carry a token of a lock, at all depths."""
    if message is None or message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            yield from carriers(field.message_type, seen)
        elif "token" in field.name and field.name != "page_token":
            yield f"{message.name}.{field.name}"


@pytest.mark.requirement("R322")
def test_each_field_that_carries_a_token_is_tried() -> None:
    files = (receiver_pb2.DESCRIPTOR, transaction_pb2.DESCRIPTOR)
    services = [each for file in files for each in file.services_by_name.values()]
    seen: set[str] = set()
    found = {
        name
        for service in services
        for method in service.methods
        for name in carriers(method.input_type, seen)
    }

    assert found == set(ATTEMPTS)


@pytest.mark.requirement("R106", "R322")
@pytest.mark.parametrize("field", ATTEMPTS)
def test_a_token_of_another_entity_does_nothing_to_its_receiver(
    bus: Any, client: ServiceBusClient, new_queue: Callable[..., str], field: str
) -> None:
    queue = new_queue(requires_session=True, lock_duration="PT30S")
    own = new_queue(requires_session=True, lock_duration="PT30S")
    send(client, queue, "s", "one", "two")
    channel = grpc.insecure_channel(bus.front_end_address)
    with accept(client, queue, "s") as receiver:
        receiver.session.set_state("kept")
        [message] = receiver.receive_messages(1, max_wait_time=5)
        ATTEMPTS[field](
            Thief(channel, own, receiver._session_token(), UUID(str(message.lock_token)).bytes)
        )
        undisturbed(receiver, message)
    channel.close()


def undisturbed(receiver: ServiceBusReceiver, message: Any) -> None:
    """Check that a receiver goes on as if nothing had been tried."""
    assert receiver.session is not None
    assert receiver.session.get_state() == b"kept"
    receiver.session.renew_lock()
    receiver.complete_message(message)
    began_s = time.monotonic()
    assert bodies(receiver.receive_messages(1, max_wait_time=5)) == ["two"]
    assert time.monotonic() - began_s < 2
