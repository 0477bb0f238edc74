"""What each method lets a caller with one small key make a front end hold.

    half-sent   requests that are begun, large, and never ended
    unread      answers that are never taken
    endless     a stream of requests whose answers are never taken

All methods are tried, so that a new one cannot be missed; real process, real memory. What is half
sent on streams gRPC reads for us: it comes, and goes when the memory guard looks.
"""

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain import limits
from bendybus.frontend.listeners import call_gate, grpc_methods
from bendybus.v1 import receiver_pb2
from tests.integration import http2
from tests.integration.http2 import Http2
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_POLICY
from tests.integration.test_hostile import Victim

pytestmark = [pytest.mark.requirement("R306"), pytest.mark.slow]
# Two victims, so that two test processes may share the work: each test process has its own.
begun_requests = pytest.mark.xdist_group("requests that are begun")
unread_answers = pytest.mark.xdist_group("answers that are not read")
MB = limits.MB
UNARY = sorted(name for name, method in grpc_methods.METHODS.items() if not method.stream)
STREAMS = sorted(name for name, method in grpc_methods.METHODS.items() if method.stream)
# 900 MB and more, where nothing bounds them.
CALLS = 90
# Of one connection: a page of 100 KB messages, or deferred messages of 4 MB.
UNREAD_CALLS = 150
# What one policy may hold; and what comes at once, over a line of this machine.
GROWTH_MAX = 250 * MB
LEFT_MAX = 50 * MB
# Of streams: what the memory guard leaves alone, and what comes until it has looked and acted.
STREAMS_GROWTH_MAX = 700 * MB


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("victim"), partitions=4)
    with ServiceBusAdministrationClient.from_connection_string(made.string()) as manager:
        manager.create_topic("news")
        manager.create_subscription("news", "all")
        manager.create_queue("by-session", requires_session=True)
    with (
        ServiceBusClient.from_connection_string(made.string()) as client,
        client.get_queue_sender("orders") as sender,
    ):
        for _ in range(60):
            sender.send_messages(ServiceBusMessage(b"x" * 100_000, partition_key="k"))
        made.deferred = deferred(client, 40)
    made.others_send()
    before = made.memory()
    yield made
    # The memory goes back when the callers have gone.
    eventually(lambda: made.memory() - before < LEFT_MAX, within_s=30)
    made.bus.end()


def deferred(client: ServiceBusClient, count: int) -> list[int]:
    """Defer messages of one partition; return their numbers."""
    with client.get_queue_receiver("orders") as receiver:
        messages: list[Any] = []
        while len(messages) < count:
            messages += receiver.receive_messages(count - len(messages), max_wait_time=5)
        for message in messages:
            receiver.defer_message(message)
    return [message.sequence_number for message in messages]


def large_request(method: str, victim: Victim) -> bytes:
    """Return a request whose answer is as large as one gets."""
    request: Message = GetMessageClass(call_gate.request_descriptor(method))()
    values: dict[str, Any] = {
        "entity_path": "orders",
        "name": "orders",
        "topic_name": "news",
        "subscription_name": "all",
        "max_messages": 100,
        "max_bytes": MB,
        "upto": 1 << 40,
        "page_size": 1_000,
        "sequence_numbers": victim.deferred,
        # A repeat is answered from memory: it costs its caller nothing.
        "operation_id": b"r" * 16,
        "receive_mode": receiver_pb2.RECEIVE_MODE_RECEIVE_AND_DELETE,
    }
    for field in request.DESCRIPTOR.fields:
        if field.name in values:
            value = values[field.name]
            if isinstance(value, list):
                getattr(request, field.name).extend(value)
            else:
                setattr(request, field.name, value)
    return request.SerializeToString()


def most_grown(victim: Victim, before: int, within_s: float) -> int:
    """Return by how much the front end grew at most, while others are served."""
    grown, until_s = 0, time.monotonic() + within_s
    while time.monotonic() < until_s:
        grown = max(grown, victim.memory() - before)
        time.sleep(0.02)
    victim.others_send()
    return max(grown, victim.memory() - before)


@begun_requests
@pytest.mark.parametrize("method", UNARY)
def test_requests_that_are_half_sent_take_a_bounded_room(victim: Victim, method: str) -> None:
    before, token = victim.memory(), victim.token(ROOT_POLICY)
    most = limits.request_bytes_max(4)
    begun = struct.pack(">?I", False, most) + bytes(most - 1)
    callers = [Http2(victim.address) for _ in range(3)]

    for caller in callers:
        for _ in range(CALLS // len(callers)):
            caller.body(caller.open(method, token), begun, within_s=0.05)
    grown = most_grown(victim, before, 0.1)
    for caller in callers:
        caller.close()

    assert grown < GROWTH_MAX, f"{grown // MB} MB"


@begun_requests
@pytest.mark.requirement("R421")
@pytest.mark.parametrize("method", STREAMS)
def test_frames_that_are_half_sent_take_a_bounded_room(victim: Victim, method: str) -> None:
    before, token = victim.memory(), victim.token(ROOT_POLICY)
    most = limits.request_bytes_max(4)
    begun = struct.pack(">?I", False, most) + bytes(most - 1)
    callers = [Http2(victim.address) for _ in range(3)]

    grown = 0
    for _ in range(2):
        for caller in callers:
            for _ in range(CALLS // len(callers)):
                caller.body(caller.open(method, token), begun, within_s=0.1)
        grown = max(grown, most_grown(victim, before, 0.5))
    # They stay connected, and send no more.
    eventually(lambda: victim.memory() - before < GROWTH_MAX, within_s=15)
    for caller in callers:
        caller.close()

    assert grown < STREAMS_GROWTH_MAX, f"{grown // MB} MB"


@unread_answers
@pytest.mark.parametrize("method", UNARY)
def test_answers_that_are_not_read_take_a_bounded_room(victim: Victim, method: str) -> None:
    before, token, caller = victim.memory(), victim.token(ROOT_POLICY), Http2(victim.address)
    request = http2.message(large_request(method, victim))
    # Nothing that the front end answers may go out.
    caller.write(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))

    for _ in range(UNREAD_CALLS):
        caller.body(caller.open(method, token), request, end=True, within_s=0.1)
    grown = most_grown(victim, before, 0.3)
    caller.close()

    assert grown < GROWTH_MAX, f"{grown // MB} MB"


@unread_answers
@pytest.mark.parametrize("method", STREAMS)
def test_streams_that_are_not_read_from_are_not_read_either(victim: Victim, method: str) -> None:
    before, token, caller = victim.memory(), victim.token(ROOT_POLICY), Http2(victim.address)
    caller.write(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    frame = http2.message(large_request(method, victim)) * 1_000

    for _ in range(CALLS):
        stream = caller.open(method, token)
        for _ in range(20):
            if not caller.body(stream, frame, within_s=0.05):
                break
    grown = most_grown(victim, before, 0.5)
    caller.close()

    assert grown < GROWTH_MAX, f"{grown // MB} MB"
