"""What callers without a token can make a front end hold: real process, its real memory."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bendybus.domain import limits
from bendybus.wire import statuses
from tests.integration.processes import eventually
from tests.integration.secured import SecuredBus
from tests.integration.traffic import send_one

SEND = "/bendybus.v1.SenderService/Send"
SETTLE = "/bendybus.v1.ReceiverService/Settle"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
MB = 1024 * 1024
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
# Twenty bodies of 40 MB are on their way at once; parsed, one of them took 2 GB.
GROWTH_MAX = 150 * MB


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[SecuredBus]:
    made = SecuredBus(tmp_path / "secured", partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders")
    yield made
    made.end()


class Caller:
    """A connection of its own."""

    def __init__(self, bus: SecuredBus) -> None:
        credentials = grpc.ssl_channel_credentials(bus.bundle)
        self.channel = grpc.secure_channel(bus.bus.front_end_address, credentials, OPTIONS)

    def call(self, method: str, data: bytes, token: str = "", *, timeout: float = 60.0) -> bytes:
        make: Any = self.channel.unary_unary
        metadata = [("authorization", token)] if token else []
        answer: bytes = make(method)(data, timeout=timeout, metadata=metadata)
        return answer

    def refused(self, method: str, data: bytes, token: str = "") -> str:
        with pytest.raises(grpc.RpcError) as error:
            self.call(method, data, token)
        return statuses.from_rpc_error(error.value).reason


def peak_while(bus: SecuredBus, work: Callable[[], object]) -> int:
    """Return by how much the front end's memory grew at most while `work` ran."""
    front_end, over, peak = bus.bus.front_end, threading.Event(), 0
    before = front_end.rss_bytes()

    def look() -> None:
        nonlocal peak
        while not over.wait(0.005):
            peak = max(peak, front_end.rss_bytes())

    looking = threading.Thread(target=look)
    looking.start()
    work()
    over.set()
    looking.join()
    return max(peak, front_end.rss_bytes()) - before


@pytest.mark.parametrize("token", ["", "SharedAccessSignature sr=x&sig=eA%3D%3D&se=1&skn=nobody"])
@pytest.mark.parametrize("method", [SEND, SETTLE])
def test_a_body_without_a_good_token_is_not_read(bus: SecuredBus, method: str, token: str) -> None:
    empty = b"\x12\x00" * (20 * MB)
    callers = [Caller(bus) for _ in range(4)]
    reasons: list[str] = []

    def attack() -> None:
        def one(caller: Caller) -> None:
            for _ in range(3):
                reasons.append(caller.refused(method, empty, token))

        threads = [threading.Thread(target=one, args=(each,)) for each in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    growth = peak_while(bus, attack)

    assert reasons == ["UNAUTHENTICATED"] * 12
    assert growth < GROWTH_MAX, f"grew by {growth // MB} MB"
    with bus.client() as client:
        send_one(client)


def test_what_is_open_to_all_reads_nothing_either(bus: SecuredBus) -> None:
    caller = Caller(bus)
    large = b"\x0a" + b"\xff\xff\xff\x09" + b"x" * (20 * MB)

    growth = peak_while(bus, lambda: [caller.call(CHECK, large) for _ in range(5)])

    assert growth < GROWTH_MAX
    assert caller.call(CHECK, b"") == b"\x08\x01"


def test_reflection_is_for_holders_of_a_token(bus: SecuredBus) -> None:
    make: Any = Caller(bus).channel.stream_stream
    ask = b"\x3a\x00"  # list_services

    with pytest.raises(grpc.RpcError) as refused:
        list(make(REFLECTION)(iter([ask]), timeout=10))
    metadata = [("authorization", bus.token(60))]
    [answer] = make(REFLECTION)(iter([ask]), timeout=10, metadata=metadata)

    assert statuses.from_rpc_error(refused.value).reason == "UNAUTHENTICATED"
    assert b"bendybus.v1.SenderService" in answer


def test_watchers_of_health_are_bounded_and_leave_room_when_they_go(bus: SecuredBus) -> None:
    caller = Caller(bus)
    make: Any = caller.channel.unary_stream
    open_: list[Any] = []

    def watch() -> Any:
        call = make(WATCH)(b"", timeout=60)
        return call, next(call)

    with pytest.raises(grpc.RpcError) as refused:
        open_.extend(watch()[0] for _ in range(200))

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 0 < len(open_) < 100
    for call in open_:
        call.cancel()

    def room() -> bool:
        try:
            watch()[0].cancel()
        except grpc.RpcError:
            return False
        return True

    eventually(room)


def test_a_request_of_too_many_elements_is_refused_before_it_is_parsed(bus: SecuredBus) -> None:
    caller, token = Caller(bus), bus.token(600)
    empty = b"\x12\x00" * (20 * MB)
    reasons: list[str] = []

    growth = peak_while(bus, lambda: reasons.append(caller.refused(SEND, empty, token)))

    assert reasons == ["INVALID_ARGUMENT"]
    assert growth < GROWTH_MAX + 2 * len(empty), f"grew by {growth // MB} MB"
    assert caller.refused(SETTLE, b"\x12\x00" * (3 * MB), token) == "MESSAGE_SIZE_EXCEEDED"
    assert caller.refused(SEND, b"\xff", token) == "INVALID_ARGUMENT"


def test_others_do_not_wait_for_callers_without_a_token(bus: SecuredBus) -> None:
    empty = b"\x12\x00" * (20 * MB)
    caller, over = Caller(bus), threading.Event()

    def attack() -> None:
        while not over.is_set():
            caller.refused(SEND, empty)

    thread = threading.Thread(target=attack)
    with bus.client() as client:
        send_one(client)
        thread.start()
        began = time.monotonic()
        for _ in range(10):
            send_one(client)
        spent_s = time.monotonic() - began
        over.set()
        thread.join()

    assert spent_s < 10 * limits.SECOND_MS / 1000
