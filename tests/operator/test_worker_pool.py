"""The processes that call partitions: what ends one costs the bus whose answer it was."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kopf
import pytest

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import PartitionUnavailable
from bendybus.operator.bus import worker, worker_pool
from bendybus.operator.bus.answers import InvalidAnswer, Share
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.bus.worker_pool import Through, WorkerPool
from bendybus.operator.controllers.webhooks import Webhooks
from bendybus.operator.decisions.conditions import WORKER_ENDED
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from tests.operator.cluster import Cluster, Loopback, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body
from tests.operator.talker import counted, talking
from tests.operator.test_hostile_answers import MB, hostile, nested_rules, peak_mb, reset_peak
from tests.operator.test_partition_link import Ear
from tests.operator.test_webhooks import DELETE, asked, delete

pytestmark = pytest.mark.integration
GOOD = ObjectKey("shop", "good")


def slot_of(pool: WorkerPool, bus: ObjectKey) -> Any:
    """Return the worker that a bus is read by with others."""
    return pool._shared[zlib.crc32(str(bus).encode()) % worker_pool.SHARED]


def end_by_answer_of(pool: WorkerPool, bus: ObjectKey, partition: int) -> None:
    """Do what an answer does that ends the worker of a bus."""
    own = pool._own.get(str(bus))
    slot: Any = slot_of(pool, bus) if own is None else own.slot
    path = Path(pool._directory) / f"{slot.name}.mark"
    with path.open("r+b") as file:
        file.write(f"{bus}#{partition}".encode())
    os.kill(slot.running.process.pid, signal.SIGKILL)


def said(cluster: Cluster, bus: str) -> dict[str, str]:
    status = cluster.api.one("BusNamespace", bus).get("status") or {}
    return {each["type"]: each["message"] for each in status.get("conditions") or []}


@pytest.mark.requirement("R391")
async def test_buses_are_served_through_workers(cluster: Cluster) -> None:
    cluster.operator(workers=True)
    cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")

    cluster.apply(changed(cluster.api.one("Queue", "paid"), maxDeliveryCount=3))
    await eventually(lambda: cluster.api.one("Queue", "paid")["status"]["observedGeneration"] == 2)
    cluster.api.remove("Queue", "shop", "paid")
    await eventually(
        lambda: cluster.api.one("BusNamespace", "orders")["status"].get("orphaned") == ["paid"]
    )
    await cluster.stop(BUS, 1)
    await cluster.says("BusNamespace", "orders", "PartitionUnavailable")
    cluster.start(BUS, 1)
    await cluster.says("BusNamespace", "orders", "Available")


@pytest.mark.requirement("R391")
async def test_an_answer_that_ends_a_worker_costs_its_own_bus(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "OWN_AGAIN", Backoff(first_s=0.05, max_s=0.1))
    pool = cluster.operator(workers=True).workers
    assert pool is not None
    for bus in (BUS, GOOD):
        cluster.apply(bus_body(bus.name, uid=f"{bus.name}-1"))
    for bus in (BUS, GOOD):
        await cluster.says("BusNamespace", bus.name, "Available")

    end_by_answer_of(pool, BUS, 1)

    await eventually(lambda: WORKER_ENDED in said(cluster, "orders"))
    assert said(cluster, "orders")[WORKER_ENDED].startswith("partition 1: its answer took more")
    assert WORKER_ENDED not in said(cluster, "good")
    await eventually(lambda: all(slot.running for slot in pool._shared))
    # It is read again, apart from others; and so after each further end.
    for _ in range(2):
        await eventually(lambda: (own := pool._own[str(BUS)].slot) and own.running)
        await cluster.says("BusNamespace", "orders", "Available")
        shared = [slot.running for slot in pool._shared]
        end_by_answer_of(pool, BUS, 1)
        await eventually(lambda: not ((own := pool._own[str(BUS)].slot) and own.running))
        assert [slot.running for slot in pool._shared] == shared
    await cluster.says("BusNamespace", "good", "Available")


@pytest.mark.requirement("R391")
async def test_a_bus_that_behaves_for_long_is_read_with_others_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "OWN_AGAIN", Backoff(first_s=0.0, max_s=0.0))
    monkeypatch.setattr(worker_pool, "FORGIVEN_S", 1.5)
    pool = WorkerPool()
    running = asyncio.create_task(pool.run())
    await eventually(lambda: all(slot.running for slot in pool._shared))

    end_by_answer_of(pool, BUS, 0)
    await eventually(lambda: pool.trouble(BUS) == 0)
    await eventually(lambda: pool.trouble(BUS) is None)
    await eventually(lambda: slot_of(pool, BUS).running)
    await pool.open(BUS, None)

    running.cancel()
    await asyncio.wait({running})
    assert not pool._directory.exists()


@pytest.mark.requirement("R391")
async def test_more_hostile_buses_than_there_is_room_for_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "OWN_AGAIN", Backoff(first_s=0.0, max_s=0.0))
    monkeypatch.setattr(worker_pool, "OWN_MAX", 1)
    pool = WorkerPool()
    running = asyncio.create_task(pool.run())
    for name in ("a", "b"):
        bus = ObjectKey("shop", name)
        await eventually(lambda bus=bus: slot_of(pool, bus).running)  # type: ignore[misc]
        end_by_answer_of(pool, bus, 0)
        await eventually(lambda bus=bus: pool.trouble(bus) == 0)  # type: ignore[misc]

    await eventually(lambda: any(own.slot and own.slot.running for own in pool._own.values()))
    [first] = [name for name, own in pool._own.items() if own.slot]
    [second] = set(pool._own) - {first}
    with pytest.raises(PartitionUnavailable, match="is being started"):
        await pool.open(ObjectKey(*second.split("/")), None)
    end_by_answer_of(pool, ObjectKey(*first.split("/")), 0)
    await eventually(lambda: (own := pool._own[second].slot) and own.running)

    running.cancel()
    await asyncio.wait({running})


@pytest.mark.requirement("R391")
@pytest.mark.parametrize("size_bytes", [24 * MB, 16 * MB])
async def test_what_a_hostile_bus_answers_is_read_in_a_bounded_process(
    cluster: Cluster, size_bytes: int
) -> None:
    cluster.held_back = {0, 1}
    ports = [cluster.address(BUS, index).rpartition(":")[2] for index in (0, 1)]
    async with hostile(size_bytes, *ports):
        pool = cluster.operator(workers=True).workers
        assert pool is not None
        before_mb = reset_peak()
        cluster.apply(bus_body())
        await eventually(
            lambda: {"AnswerNotUnderstood", WORKER_ENDED} & said(cluster, "orders").keys()
        )
        limits = [
            resource.prlimit(slot.running.process.pid, resource.RLIMIT_DATA)
            for slot in pool._shared
            if slot.running
        ]

    assert peak_mb() - before_mb < 60
    assert limits
    assert set(limits) == {(worker_pool.DATA_BYTES, worker_pool.DATA_BYTES)}


@pytest.mark.requirement("R391")
async def test_other_buses_are_served_while_one_is_hostile(cluster: Cluster) -> None:
    cluster.held_back = {0, 1}
    data = nested_rules(1_000_000)
    addresses = [cluster.address(BUS, index) for index in (0, 1)]
    loop = asyncio.get_running_loop()
    async with talking(lambda _: data, addresses[0]), talking(lambda _: data, addresses[1]):
        pool = cluster.operator(workers=True, call_timeout_s=3.0).workers
        assert pool is not None
        cluster.apply(bus_body())
        for name in ("a", "b"):
            bus = ObjectKey("shop", name)
            cluster.apply(bus_body(name, uid=name))
            await eventually(lambda bus=bus: bus in cluster.identities)  # type: ignore[misc]
            for index in (0, 1):
                cluster.start(bus, index)
            await cluster.says("BusNamespace", name, "Available")
        await eventually(lambda: pool.trouble(BUS) is not None)
        reset_peak()
        before_mb, late_s = peak_mb(), []
        for number in range(6):
            began_s = loop.time()
            for name in ("a", "b"):
                cluster.apply(queue_body(f"{name}{number}", namespaceRef={"name": name}))
            for name in ("a", "b"):
                await cluster.says("Queue", f"{name}{number}", "Available")
            late_s.append(loop.time() - began_s)
            await asyncio.sleep(0.3)

    assert max(late_s) < 5
    assert peak_mb() - before_mb < 60


@pytest.mark.requirement("R391")
async def test_webhooks_ask_through_workers(cluster: Cluster) -> None:
    pool = WorkerPool()
    running = asyncio.create_task(pool.run())
    await eventually(lambda: slot_of(pool, BUS).running)
    async with asked(cluster, lambda _: counted(active=1), bus_body()):
        webhooks = Webhooks(cluster.api, Metrics(), Loopback(cluster), pool)
        with pytest.raises(kopf.AdmissionError, match="holds 1 message"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))
        end_by_answer_of(pool, BUS, 0)
        await eventually(lambda: pool.trouble(BUS) == 0)
        with pytest.raises(kopf.AdmissionError, match="cannot say"):
            await delete(cluster, webhooks.entity, queue_body(**DELETE))

    running.cancel()
    await asyncio.wait({running})


@pytest.mark.requirement("R391")
def test_what_takes_too_much_memory_ends_a_worker_with_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    path.write_bytes(bytes(worker.MARK_BYTES))
    program = (
        "import sys, pathlib; from bendybus.operator.bus.worker import Mark\n"
        "with Mark(pathlib.Path(sys.argv[1])).set_to('shop/orders#3'): raise MemoryError"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=False, timeout=60)

    assert done.returncode == worker.OUT_OF_MEMORY
    assert path.read_bytes().rstrip(b"\0") == b"shop/orders#3"
    mark = worker.Mark(path)
    with pytest.raises(ValueError, match="wrong"), mark.set_to("shop/good#0"):
        raise ValueError("wrong")
    assert not path.read_bytes().strip(b"\0")


@pytest.mark.requirement("R391")
async def test_channels_that_nobody_uses_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mark"
    path.write_bytes(bytes(worker.MARK_BYTES))
    made = worker.Worker(worker.Mark(path))

    def facts(address: str) -> dict[str, str]:
        return {"bus": "shop/orders", "address": address, "material": ""}

    async with made._slot(facts("a:1")):
        monkeypatch.setattr(worker, "IDLE_S", -1.0)
        async with made._slot(facts("b:1")):
            pass
        async with made._slot(facts("c:1")):
            assert sorted(address for _, address, _ in made._channels) == ["a:1", "c:1"]


@pytest.mark.requirement("R391")
async def test_an_answer_that_fills_a_worker_ends_it_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A parser says of a message for which memory is short that it cannot be parsed."""
    monkeypatch.setattr(worker_pool, "OWN_AGAIN", Backoff(first_s=0.05, max_s=0.1))
    pool = WorkerPool(100 * MB)
    running = asyncio.create_task(pool.run())
    await pool.started()
    data = nested_rules(900_000)

    async with talking(lambda _: data) as address:
        way = Through(pool, BUS, 1, address, None)
        link = PartitionLink(1, address, None, Ear(), timeout_s=20, way=way)
        following = asyncio.create_task(link.run())
        await eventually(lambda: pool.trouble(BUS) == 1)
        following.cancel()
        await asyncio.wait({following})
    await pool.open(GOOD, None)

    running.cancel()
    await asyncio.wait({running})


@pytest.mark.requirement("R391")
async def test_a_bus_takes_its_share_of_a_worker_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that cannot be understood cost as much as others, and are asked for again soon."""
    bus, now_s, pauses_s = worker._Bus(), 0.0, []

    def slow() -> None:
        nonlocal now_s
        now_s += 0.05
        raise InvalidAnswer("no")

    async def pause(seconds: float) -> None:
        nonlocal now_s
        pauses_s.append(seconds)
        now_s += seconds

    bus._share = Share(reserve_s=0.1, share=0.5)
    with monkeypatch.context() as patched:
        patched.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now_s))
        patched.setattr(asyncio, "sleep", pause)
        for _ in range(6):
            with pytest.raises(InvalidAnswer):
                await bus.read(contextlib.nullcontext(), slow)
    assert pauses_s[0] == 0.0
    # As long as a reading takes, from when the reserve is used up.
    assert pauses_s[-1] == pytest.approx(0.05)
    assert sum(pauses_s[2:]) > 0.1

    # One answer at a time, so that those of other buses are read between.
    order: list[str] = []
    other = worker._Bus()

    async def read(of: Any, name: str) -> None:
        await of.read(contextlib.nullcontext(), lambda: order.append(name))

    async with bus._turn:
        waiting = [asyncio.create_task(read(bus, "mine")) for _ in range(3)]
        await asyncio.sleep(0)
        await read(other, "other")
    await asyncio.gather(*waiting)
    assert order == ["other", "mine", "mine", "mine"]


@pytest.mark.requirement("R391")
@pytest.mark.parametrize(("kept_mb", "ends"), [(10, False), (120, True)])
def test_a_worker_that_one_answer_has_filled_ends(tmp_path: Path, kept_mb: int, ends: bool) -> None:
    path = tmp_path / "mark"
    path.write_bytes(bytes(worker.MARK_BYTES))
    program = (
        "import pathlib, resource, sys; from bendybus.operator.bus.worker import Mark\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (180 << 20, 180 << 20))\n"
        "with Mark(pathlib.Path(sys.argv[1])).set_to('a/b#0'): kept = bytearray(KEPT << 20)"
    ).replace("KEPT", str(kept_mb))
    small_stacks = [sys.executable, "-c", worker_pool._SMALL_STACKS, "-c", program, str(path)]

    done = subprocess.run(small_stacks, check=False, timeout=60)

    assert done.returncode == (worker.OUT_OF_MEMORY if ends else 0)
