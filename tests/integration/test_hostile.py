"""What strangers and holders of one small key can do to a front end: real process, real memory."""

import json
import socket
import struct
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain import limits, shared_access
from bendybus.v1 import message_pb2, pipeline_pb2, receiver_pb2, sender_pb2
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT
from tests.integration import http2
from tests.integration.http2 import Http2
from tests.integration.processes import Bus, eventually
from tests.integration.secured import ROOT, ROOT_KEY, ROOT_POLICY, policy
from tests.ports import free_port

MB = limits.MB
SEND = "/bendybus.v1.SenderService/Send"
SEND_STREAM = "/bendybus.v1.SenderService/SendStream"
RECEIVE_STREAM = "/bendybus.v1.ReceiverService/ReceiveStream"


class Victim:
    """A bus in plain text with policies; keys of one queue are what attackers have."""

    def __init__(self, folder: Path, *options: str, partitions: int = 1) -> None:
        policies = folder / "policies.json"
        entries = [
            ROOT,
            policy("sends", ["Send"], ["send-key"], "orders"),
            policy("listens", ["Listen"], ["listen-key"], "orders"),
        ]
        policies.write_text(json.dumps({"policies": entries}))
        self.metrics_port = free_port()
        # Sequence numbers of deferred messages.
        self.deferred: list[int] = []
        self.bus = Bus(
            folder / "data",
            partitions=partitions,
            front_end_options=(
                f"--access-policies={policies}",
                f"--metrics-port={self.metrics_port}",
                *options,
            ),
        )
        self.address = self.bus.front_end_address
        with ServiceBusAdministrationClient.from_connection_string(self.string()) as manager:
            manager.create_queue("orders")
            manager.create_queue("bills")

    def string(self) -> str:
        """Return the connection string of who may do everything."""
        return (
            f"Endpoint=sb://{self.address};SharedAccessKeyName={ROOT_POLICY};"
            f"SharedAccessKey={ROOT_KEY};UseDevelopmentEmulator=true"
        )

    def token(self, name: str) -> str:
        """Return a token of a policy of one queue, or of the whole bus."""
        key = {"sends": "send-key", "listens": "listen-key", ROOT_POLICY: ROOT_KEY}[name]
        return shared_access.sign(f"sb://{self.address}/", name, key, int(time.time()) + 600)

    def others_send(self) -> None:
        """Send as somebody else; that must work whatever is going on."""
        with (
            ServiceBusClient.from_connection_string(self.string()) as client,
            client.get_queue_sender("bills") as sender,
        ):
            sender.send_messages(ServiceBusMessage("bill"))

    def memory(self) -> int:
        """Return what the front end holds."""
        return self.bus.front_end.rss_bytes()

    def metrics(self) -> str:
        """Return what the front end counts."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def stream(self, method: str, policy_name: str, frames: list[bytes]) -> list[bytes]:
        """Return what a stream answers. Raises grpc.RpcError."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.address, options) as channel:
            make: Any = channel.stream_stream
            metadata = [("authorization", self.token(policy_name)), CLIENT.said]
            return list(make(method)(iter(frames), metadata=metadata, timeout=60))


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("victim"))
    made.others_send()
    yield made
    made.bus.end()


@pytest.mark.parametrize("kind", [http2.PING, http2.SETTINGS])
def test_a_flood_of_pings_or_settings_takes_no_memory(victim: Victim, kind: int) -> None:
    payload = b"12345678" if kind == http2.PING else struct.pack(">HI", 4, 65_535)
    before, stranger = victim.memory(), Http2(victim.address)

    for _ in range(1_000):
        stranger.write(http2.frame(kind, 0, 0, payload) * 200)

    victim.others_send()
    stranger.close()
    assert victim.memory() - before < 60 * MB


@pytest.mark.parametrize("policy_name", ["", "sends"])
def test_calls_that_are_taken_back_at_once_do_not_pile_up(victim: Victim, policy_name: str) -> None:
    token = victim.token(policy_name) if policy_name else ""
    before, caller = victim.memory(), Http2(victim.address)

    for _ in range(200):
        caller.write(b"".join(caller.opened_and_reset(SEND, token) for _ in range(250)))

    victim.others_send()
    grown = victim.memory() - before
    caller.close()
    assert grown < 200 * MB, f"{grown // MB} MB for 50,000 calls"


def test_a_compressed_body_is_refused_and_not_unpacked(victim: Victim) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([packer.compress(bytes(MB)) for _ in range(400)]) + packer.flush()
    before, caller = victim.memory(), Http2(victim.address)

    for method in (SEND, SEND_STREAM):
        stream = caller.open(method, victim.token("sends"), grpc_encoding="gzip")
        caller.body(stream, http2.message(bomb, compressed=True), end=True, within_s=30)
        assert caller.wait_for(http2.HEADERS, stream) or caller.wait_for(http2.RESET, stream)

    victim.others_send()
    caller.close()
    assert victim.memory() - before < 100 * MB


def test_paths_that_callers_make_up_are_neither_kept_nor_counted_by_name(victim: Victim) -> None:
    def frames(paths: list[str]) -> list[bytes]:
        make = sender_pb2.SendStreamRequest
        return [make(entity_path=path).SerializeToString() for path in paths]

    large = [f"{begin}{number}{'x' * MB}" for begin in ("orders/$", "o") for number in range(60)]
    before = victim.memory()
    answers = victim.stream(SEND_STREAM, "sends", frames(large))
    spelled = ["Orders", "oRders", "orDERS", "orders/$x", "foreign-1", "foreign-2"]
    victim.stream(SEND_STREAM, "sends", frames(spelled))

    errors = [sender_pb2.SendStreamResponse.FromString(answer).error for answer in answers]
    assert {error.reason for error in errors} == {"INVALID_ARGUMENT"}
    assert max(len(error.message) for error in errors) < 300
    assert victim.memory() - before < 60 * MB
    metrics = victim.metrics()
    assert 'entity="orders",reason="INVALID_ARGUMENT"' in metrics
    for name in ("Orders", "oRders", "orDERS", "foreign", "xxxx", "$x"):
        assert name not in metrics


def test_a_frame_that_cannot_be_read_is_refused_with_a_reason_and_without_a_log(
    victim: Victim,
) -> None:
    log = victim.bus.folder / "front-end.log"
    before = log.stat().st_size

    for _ in range(30):
        with pytest.raises(grpc.RpcError) as refused:
            victim.stream(SEND_STREAM, "sends", [b"\xff"])
    [answer] = victim.stream(RECEIVE_STREAM, "listens", [b"\xff"])
    elements = b"\x22\x80\x80\x80\x02" + b"\x22\x00" * (2 * MB)
    [heavy] = victim.stream(RECEIVE_STREAM, "listens", [elements])

    assert statuses.from_rpc_error(refused.value).reason == "INVALID_ARGUMENT"
    for each in (answer, heavy):
        parsed = receiver_pb2.ReceiveStreamResponse.FromString(each)
        assert parsed.error.reason == "INVALID_ARGUMENT"
    assert log.stat().st_size - before < 2_000


@pytest.mark.parametrize("tag", [19, 20])
def test_properties_nested_as_deep_as_can_be_read_do_not_end_what_others_settle(
    victim: Victim, tag: int
) -> None:
    # Groups of an unknown field, or lists in lists; a frame to the partition is deeper by one.
    deepest = b"\x9b\x01" * 96 + b"\x9c\x01" * 96 if tag == 20 else b""
    for _ in range(48 if tag == 19 else 0):
        deepest = _field(19, _field(1, deepest))
    nested = _field(4, _field(1, _field(1, b"a") + _field(2, deepest)))
    attack = b"\x10\x02" + _field(3, b"\0\0" + b"x" * 14) + nested
    opened = receiver_pb2.OpenReceiver(
        entity_path="orders", receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK
    ).SerializeToString()
    parts = _field(1, opened), _field(4, attack)
    with (
        ServiceBusClient.from_connection_string(victim.string()) as client,
        client.get_queue_sender("bills") as sender,
        client.get_queue_receiver("bills") as receiver,
    ):
        sender.send_messages([ServiceBusMessage("bill") for _ in range(5)])
        others = list(receiver.receive_messages(5, max_wait_time=5))
        unary = _field(1, b"orders") + b"\x10\x02" + _field(3, bytes(16).hex().encode()) + nested
        with grpc.insecure_channel(victim.address) as channel:
            call: Any = channel.unary_unary("/bendybus.v1.ReceiverService/Settle")
            token = [("authorization", victim.token(ROOT_POLICY))]
            with pytest.raises(grpc.RpcError) as refused:
                call(unary, metadata=token, timeout=30)
        last = victim.stream(RECEIVE_STREAM, "listens", list(parts))[-1]
        for message in others:
            receiver.complete_message(message)

    assert others
    assert statuses.from_rpc_error(refused.value).reason == "INVALID_ARGUMENT"
    answer = receiver_pb2.ReceiveStreamResponse.FromString(last)
    assert answer.error.reason == "INVALID_ARGUMENT"
    assert "changed_properties" in answer.error.message


def test_a_sender_that_never_reads_its_errors_is_not_read_from_either(victim: Victim) -> None:
    count = limits.FRAME_MESSAGES_MAX
    refused = sender_pb2.SendStreamRequest(
        entity_path="orders",
        group_sizes=[1] * count,
        batch=message_pb2.MessageBatch(messages=[b""] * count, time_to_live_ms=[-1] * count),
    ).SerializeToString()
    before, caller = victim.memory(), Http2(victim.address)
    # Nothing that the front end answers may go out.
    caller.write(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))

    stream = caller.open(SEND_STREAM, victim.token("sends"))
    for _ in range(150):
        if caller.body(stream, http2.message(refused), within_s=2.0) == 0:
            break

    victim.others_send()
    grown = victim.memory() - before
    caller.close()
    assert grown < 150 * MB, f"{grown // MB} MB"


PEEK = "/bendybus.v1.ReceiverService/Peek"
BROWSE = "/bendybus.v1.PipelineService/BrowsePartition"
PAGE = receiver_pb2.PeekRequest(entity_path="orders", max_messages=100).SerializeToString()
RANGE = pipeline_pb2.BrowsePartitionRequest(
    entity_path="orders", partition=0, after=0, upto=1 << 40, max_messages=100, max_bytes=MB
).SerializeToString()


@pytest.mark.requirement("R306")
@pytest.mark.parametrize(
    ("method", "request_"), [(PEEK, PAGE), (BROWSE, RANGE)], ids=["peek", "browse"]
)
def test_pages_that_a_caller_does_not_read_are_bounded(
    tmp_path: Path, method: str, request_: bytes
) -> None:
    victim = Victim(tmp_path)
    with (
        ServiceBusClient.from_connection_string(victim.string()) as client,
        client.get_queue_sender("orders") as sender,
    ):
        for _ in range(12):
            sender.send_messages(ServiceBusMessage(b"x" * 100_000))
    before, caller = victim.memory(), Http2(victim.address)

    # Of whatever comes, this caller takes 64 KB.
    for _ in range(300):
        stream = caller.open(method, victim.token("listens"))
        caller.body(stream, http2.message(request_), end=True)
    grown = 0
    for _ in range(20):
        victim.others_send()
        grown = max(grown, victim.memory() - before)
        time.sleep(0.1)
    with grpc.insecure_channel(victim.address) as channel:
        call: Any = channel.unary_unary(method)
        metadata = [("authorization", victim.token("listens"))]
        page = call(request_, metadata=metadata, timeout=30)
    caller.close()
    victim.bus.end()

    assert len(page) > 190_000
    assert grown < 100 * MB, f"{grown // MB} MB"


def test_a_flood_of_frames_on_many_streams_does_not_stop_others(victim: Victim) -> None:
    token, caller, over = victim.token("sends"), Http2(victim.address), threading.Event()
    one = sender_pb2.SendStreamRequest(
        entity_path="orders", batch=message_pb2.MessageBatch(messages=[b"x"])
    ).SerializeToString()
    streams = [caller.open(SEND_STREAM, token) for _ in range(60)]

    def flood() -> None:
        while not over.is_set():
            for stream in streams:
                caller.body(stream, http2.message(one) * 50, within_s=0.02)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        time.sleep(2)
        for _ in range(3):
            victim.others_send()
    finally:
        over.set()
        thread.join()
        caller.close()


def test_connections_are_bounded_and_leave_room_when_they_go(tmp_path: Path) -> None:
    victim = Victim(tmp_path, "--max-connections=40")
    host, port = victim.address.split(":")
    try:
        silent = [socket.create_connection((host, int(port)), timeout=30) for _ in range(60)]
        # A closed one reads as ended; one that is kept says what it takes.
        turned_away = [each for each in silent if not _first_byte(each)]

        assert 15 <= len(turned_away) <= 25
        for each in silent:
            each.close()
        eventually(lambda: _sends(victim))
    finally:
        victim.bus.end()


@pytest.mark.requirement("R434")
def test_a_stranger_that_reads_no_answers_about_health_takes_no_place_of_others(
    victim: Victim,
) -> None:
    victim.others_send()
    before = victim.memory()
    stranger = Http2(victim.address)
    # It lets no data come.
    stranger.write(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    for _ in range(4_000):
        stream = stranger.open("/grpc.health.v1.Health/Check")
        stranger.write(http2.frame(http2.DATA, 1, stream, http2.message(b"")))

    victim.others_send()
    eventually(lambda: victim.memory() - before < 30 * MB, within_s=20)
    with grpc.insecure_channel(victim.address) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=10) == b"\x08\x01"
    stranger.close()


def _field(number: int, data: bytes) -> bytes:
    return b"".join(map(_varint, (number << 3 | 2, len(data)))) + data


def _varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def _sends(victim: Victim) -> bool:
    victim.others_send()
    return True


def _first_byte(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except ConnectionError:
        return b""
