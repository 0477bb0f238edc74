"""The external scaler that KEDA calls, on a bus of real processes with keys and TLS."""

import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusMessage
from bendybus.v1 import external_scaler_pb2 as messages
from bendybus.v1 import external_scaler_pb2_grpc
from tests.integration.secured import (
    LISTEN_KEY,
    MANAGE_KEY,
    OTHER_KEY,
    POLICIES,
    SEND_KEY,
    SecuredBus,
)

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R654")]


class Scaled:
    """A bus, and calls as KEDA makes them."""

    def __init__(self, bus: SecuredBus) -> None:
        self.bus = bus
        address = bus.bus.front_end_address
        self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(bus.bundle))
        self.stub = external_scaler_pb2_grpc.ExternalScalerStub(self.channel)

    def connection(self, policy: str = "listener", key: str = LISTEN_KEY) -> str:
        """Return a connection string."""
        address = self.bus.bus.front_end_address
        return f"Endpoint=sb://{address}/;SharedAccessKeyName={policy};SharedAccessKey={key}"

    def ref(self, **metadata: str) -> Any:
        """Return a trigger; its key may listen, unless it has another one."""
        given = {"connectionFromEnv": self.connection(), "scalerAddress": "x", **metadata}
        return messages.ScaledObjectRef(name="o", namespace="n", scalerMetadata=given)

    def values(self, metric: str, **metadata: str) -> list[tuple[str, int, float]]:
        """Return the values of a metric."""
        request = messages.GetMetricsRequest(
            scaledObjectRef=self.ref(**metadata), metricName=metric
        )
        found = self.stub.GetMetrics(request, timeout=20).metricValues
        return [(each.metricName, each.metricValue, each.metricValueFloat) for each in found]

    def active(self, **metadata: str) -> bool:
        """Whether a trigger is active."""
        return bool(self.stub.IsActive(self.ref(**metadata), timeout=20).result)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scaled]:
    bus = SecuredBus(tmp_path_factory.mktemp("bus"), POLICIES, partitions=4)
    with bus.administration() as administration:
        administration.create_queue("orders", enable_partitioning=True)
        administration.create_queue("bills", enable_partitioning=True, requires_session=True)
        administration.create_topic("news")
        administration.create_subscription("news", "all")
    made = Scaled(bus)
    yield made
    made.channel.close()
    bus.end()


def refused(call: Any) -> Any:
    """Return the error of a call."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value


def test_messages_sessions_and_age_of_queues_and_subscriptions(scaled: Scaled) -> None:
    by_all = {"queueName": "bills", "messageCount": "2.5", "sessionCount": "2"}
    by_all["oldestMessageAgeSeconds"] = "30"
    assert not scaled.active(**by_all)
    time.sleep(1.1)
    with scaled.bus.client() as client:
        with client.get_queue_sender("bills") as sender:
            for number in range(7):
                sender.send_messages(ServiceBusMessage(b"x", session_id=str(number % 3)))
        with client.get_topic_sender("news") as publisher:
            publisher.send_messages([ServiceBusMessage(b"x")] * 4)

    specs = scaled.stub.GetMetricSpec(scaled.ref(**by_all)).metricSpecs
    assert [(each.metricName, each.targetSize, each.targetSizeFloat) for each in specs] == [
        ("bendybus-messages", 3, 2.5),
        ("bendybus-sessions", 2, 2.0),
        ("bendybus-age", 30, 30.0),
    ]
    assert scaled.values("bendybus-messages", **by_all) == [("bendybus-messages", 7, 7.0)]
    # A count of sessions stands for a few times as long as it took.
    until_s = time.monotonic() + 30
    while scaled.values("bendybus-sessions", **by_all) != [("bendybus-sessions", 3, 3.0)]:
        assert time.monotonic() < until_s
        time.sleep(0.2)
    [(name, whole, age_s)] = scaled.values("bendybus-age", **by_all)
    assert (name, whole >= age_s, 0 < age_s < 20) == ("bendybus-age", True, True)
    assert scaled.active(**by_all)
    of_topic = {"topicName": "news", "subscriptionName": "all"}
    assert scaled.values("bendybus-messages", **of_topic) == [("bendybus-messages", 4, 4.0)]
    assert scaled.active(**of_topic, activationMessageCount="3")
    assert not scaled.active(**of_topic, activationMessageCount="4")


def test_a_stream_says_at_once_and_when_it_changes(scaled: Scaled) -> None:
    stream = scaled.stub.StreamIsActive(scaled.ref(queueName="orders"), timeout=30)

    first = next(stream).result
    with scaled.bus.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    second = next(stream).result
    with scaled.bus.client() as client, client.get_queue_receiver("orders") as receiver:
        receiver.complete_message(receiver.receive_messages(max_wait_time=10)[0])
    third = next(stream).result
    stream.cancel()

    assert [first, second, third] == [False, True, False]


@pytest.mark.parametrize(
    ("policy", "key", "queue", "code"),
    [
        ("listener", "", "orders", "UNAUTHENTICATED"),
        ("listener", "another key", "orders", "UNAUTHENTICATED"),
        ("nobody", LISTEN_KEY, "orders", "UNAUTHENTICATED"),
        ("sender", SEND_KEY, "orders", "PERMISSION_DENIED"),
        ("orders-only", OTHER_KEY, "bills", "PERMISSION_DENIED"),
        ("orders-only", OTHER_KEY, "orders", ""),
        ("manager", MANAGE_KEY, "orders", ""),
    ],
)
def test_a_trigger_needs_a_key_that_may_listen_there(
    scaled: Scaled, policy: str, key: str, queue: str, code: str
) -> None:
    ref = scaled.ref(queueName=queue, connectionFromEnv=scaled.connection(policy, key))
    calls: list[Any] = [
        lambda: scaled.stub.IsActive(ref, timeout=20),
        lambda: scaled.stub.GetMetricSpec(ref, timeout=20),
        lambda: scaled.stub.GetMetrics(
            messages.GetMetricsRequest(scaledObjectRef=ref, metricName="bendybus-messages")
        ),
        lambda: next(scaled.stub.StreamIsActive(ref, timeout=20)),
    ]

    for call in calls:
        if code:
            assert refused(call).code().name == code
        else:
            call()


@pytest.mark.parametrize(
    ("metadata", "code", "words"),
    [
        ({}, "INVALID_ARGUMENT", "queueName"),
        ({"queueName": "orders", "topicName": "news"}, "INVALID_ARGUMENT", "queueName"),
        ({"topicName": "news"}, "INVALID_ARGUMENT", "queueName"),
        ({"queueName": "orders", "messageCount": "many"}, "INVALID_ARGUMENT", "messageCount"),
        ({"queueName": "orders", "messageCount": "0"}, "INVALID_ARGUMENT", "messageCount"),
        ({"queueName": "orders", "useRegex": "true"}, "INVALID_ARGUMENT", "useRegex"),
        ({"queueName": "nowhere"}, "NOT_FOUND", "nowhere"),
        ({"queueName": "news"}, "FAILED_PRECONDITION", "topic"),
        ({"queueName": "orders", "sessionCount": "2"}, "FAILED_PRECONDITION", "session"),
        ({"queueName": "x" * 70_000}, "", ""),
    ],
)
def test_what_is_wrong_with_a_trigger_is_said(
    scaled: Scaled, metadata: dict[str, str], code: str, words: str
) -> None:
    error: Any = refused(lambda: scaled.stub.IsActive(scaled.ref(**metadata), timeout=20))

    assert not code or error.code().name == code
    assert words in error.details()


def test_many_triggers_share_a_connection(scaled: Scaled) -> None:
    calls = [scaled.stub.IsActive.future(scaled.ref(queueName="orders")) for _ in range(100)]
    streams = [scaled.stub.StreamIsActive(scaled.ref(queueName="orders")) for _ in range(20)]

    assert {call.result(timeout=30).result for call in calls} == {False}
    assert [next(stream).result for stream in streams] == [False] * 20
    for stream in streams:
        stream.cancel()
