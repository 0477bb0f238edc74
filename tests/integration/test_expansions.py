"""Ten callers with one key make a front end parse requests of many elements.

Each method for clients gets, for each of its fields that repeat, a request of empty elements: real
process, real memory.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from bendybus.domain.limits import MB
from bendybus.frontend.core.quota.bounds import FRAMES, REQUESTS
from bendybus.frontend.listeners import call_gate, grpc_methods
from bendybus.v1 import sender_pb2
from bendybus.wire.contract_versions import CLIENT
from tests.frontend.test_request_memory import fields
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_POLICY
from tests.integration.test_hostile import Victim
from tests.wire.test_expansion import varint

pytestmark = [pytest.mark.requirement("R632"), pytest.mark.slow]
ATTACKERS = 10
# Below what any method refuses by its size.
SIZE_BYTES = 2_900_000
# The rooms of one policy, and what a front end may hold beside what it counts.
GROWTH_MAX = FRAMES.policy + REQUESTS.policy + 64 * MB


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("victim"), partitions=4)
    made.others_send()
    yield made
    made.bus.end()


def worst(method: str) -> Iterator[bytes]:
    """Yield requests of a method, each of empty elements of one field that repeats."""
    for path in fields(call_gate.request_descriptor(method)):
        field, empty = path[-1], b"\x00"
        if not field.is_repeated or len(path) > 3:
            continue
        tag = varint(field.number << 3 | 2)
        data = (tag + empty) * (SIZE_BYTES // (len(tag) + 1))
        if field.message_type is None and field.type not in (
            FieldDescriptor.TYPE_STRING,
            FieldDescriptor.TYPE_BYTES,
        ):
            data = tag + varint(SIZE_BYTES) + bytes(SIZE_BYTES)
        for outer in reversed(path[:-1]):
            data = varint(outer.number << 3 | 2) + varint(len(data)) + data
        yield data


def most_bytes(victim: Victim) -> int:
    """Return the most that the front end has had in memory since `forget`."""
    status = Path(f"/proc/{victim.bus.front_end.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def forget(victim: Victim) -> int:
    """Reset the most memory; return the present one."""
    Path(f"/proc/{victim.bus.front_end.pid}/clear_refs").write_text("5")
    return victim.memory()


@pytest.mark.parametrize("method", sorted(grpc_methods.METHODS))
def test_requests_of_many_elements_take_a_bounded_room(victim: Victim, method: str) -> None:
    requests = list(worst(method)) or [b"\xfa\x07\x00" * (SIZE_BYTES // 3)]
    before = forget(victim)

    def attack() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        metadata = [("authorization", victim.token(ROOT_POLICY)), CLIENT.said]
        with grpc.insecure_channel(victim.address, options) as channel:
            call: Any = channel.stream_stream(method)
            for each in requests:
                with contextlib.suppress(grpc.RpcError):
                    list(call(iter([each]), metadata=metadata, timeout=60))

    attackers = [threading.Thread(target=attack) for _ in range(ATTACKERS)]
    for each in attackers:
        each.start()
    for each in attackers:
        each.join()

    grown = most_bytes(victim) - before
    victim.others_send()
    print(f"{method}: +{grown // MB} MB")
    assert grown < GROWTH_MAX, f"{grown // MB} MB"


def test_streams_that_fall_silent_after_a_frame_hold_nothing_of_it(victim: Victim) -> None:
    frame = sender_pb2.SendStreamRequest(entity_path="orders").SerializeToString()
    # Many empty messages, below the bound by length that a connection may hold.
    batch = b"\x0a\x00" * 640_000
    frame += b"\x22" + varint(len(batch)) + batch
    before, ended = forget(victim), threading.Event()

    def silent() -> Iterator[bytes]:
        yield frame
        ended.wait(60)

    metadata = [("authorization", victim.token(ROOT_POLICY)), CLIENT.said]
    with grpc.insecure_channel(victim.address) as channel:
        call: Any = channel.stream_stream("/bendybus.v1.SenderService/SendStream")
        streams = [call(silent(), metadata=metadata, timeout=60) for _ in range(90)]
        try:
            for each in streams:
                next(each)
            # Memory that was freed goes back to the system a moment later.
            free = eventually(lambda: has_given_back(victim, before), within_s=10, what="memory")
        finally:
            ended.set()
            for each in streams:
                each.cancel()

    assert free
    victim.others_send()


def has_given_back(victim: Victim, before: int) -> bool:
    """Whether the front end has little more in memory than before."""
    return victim.memory() - before < FRAMES.connection + 64 * MB
