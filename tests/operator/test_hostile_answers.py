"""A partition that answers with lists without end costs its own bus, and bounded memory."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.bus import answers, partition_link
from bendybus.operator.bus.answers import CatalogueReader, InvalidAnswer
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.decisions.conditions import ANSWER_NOT_UNDERSTOOD, Counts
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, queue_body
from tests.operator.talker import counted, entity, fingerprint, snapshot, talking
from tests.operator.test_answers import link_of
from tests.operator.test_partition_link import Ear, linked

MB = limits.MB


@contextlib.asynccontextmanager
async def hostile(size_bytes: int, *ports: str) -> AsyncIterator[None]:
    """Have a process answer with so many bytes of empty entries."""
    module = "tests.operator.hostile_partition"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(size_bytes), *ports
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


def peak_mb() -> int:
    """Return the most memory that this process had since `reset_peak`."""
    [line] = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    ]
    return int(line.split()[1]) // 1024


def reset_peak() -> int:
    """Begin to measure; return the memory of this process now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


@pytest.mark.integration
@pytest.mark.requirement("R382")
@pytest.mark.parametrize("size_bytes", [24 * MB, 16 * MB, MB])
async def test_answers_of_empty_entries_take_little_memory_and_a_status_says_so(
    cluster: Cluster, size_bytes: int
) -> None:
    cluster.held_back = {0, 1}
    ports = [cluster.address(BUS, index).rpartition(":")[2] for index in (0, 1)]
    async with hostile(size_bytes, *ports):
        cluster.operator()
        before_mb = reset_peak()
        cluster.apply(bus_body())
        cluster.apply(queue_body())

        def said() -> str:
            status = cluster.api.one("BusNamespace", "orders").get("status") or {}
            found = {each["type"]: each["message"] for each in status.get("conditions") or []}
            return str(found.get(ANSWER_NOT_UNDERSTOOD, ""))

        message = await eventually(said)
        # Counts are asked for, the catalogue is watched again.
        await asyncio.sleep(1.0)

    assert "cannot parse its answers" in message
    # Parsed, 24 MB are 1,800 MB.
    assert peak_mb() - before_mb < 200


@pytest.mark.requirement("R382")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x12\x00" * 500_000, id="entries"),
        pytest.param(b"\x22\x00" * 500_000, id="fields of other versions"),
        pytest.param(b"\x2a" + b"\x80\x80\x04" + bytes(65_536), id="what is no entry"),
        pytest.param(b"\x22\xff\xff\xff\x0f", id="cut off"),
    ],
)
def test_a_catalogue_is_counted_before_it_is_parsed(data: bytes) -> None:
    began = time.process_time()

    with pytest.raises(InvalidAnswer):
        CatalogueReader().read(data)

    assert time.process_time() - began < 0.2


@pytest.mark.slow
@pytest.mark.requirement("R382")
def test_an_entry_is_counted_at_all_depths_before_it_is_parsed() -> None:
    rules = nested_rules(2_000_000)

    with pytest.raises(InvalidAnswer, match="its elements take more than"):
        CatalogueReader().read(rules)
    with pytest.raises(InvalidAnswer, match="its elements take more than"):
        answers.committed(_tag(1) + rules[1:])


def nested_rules(number: int) -> bytes:
    """Return a catalogue of one subscription with so many empty rules."""
    made = b"\x0a\x00" * number
    described = entity_pb2.Entity().subscription.DESCRIPTOR
    [field] = [field for field in described.fields if field.name == "rules"]
    entities = entity_pb2.WatchEntitiesResponse.ENTITIES_FIELD_NUMBER
    for outer in (field.number, entity_pb2.Entity.SUBSCRIPTION_FIELD_NUMBER, entities):
        made = _tag(outer) + _varint(len(made)) + made
    return made


def _tag(number: int) -> bytes:
    return _varint(number << 3 | 2)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


@pytest.mark.requirement("R382")
def test_counts_without_end_are_refused() -> None:
    with pytest.raises(InvalidAnswer, match="more than"):
        answers.counts_page(b"\x0a\x00" * (answers.ENTRIES_MAX + 1))
    with pytest.raises(InvalidAnswer, match="beside its entries"):
        answers.counts_page(b"\x12\x00" * 100_000)
    more = partition_pb2.GetCountsResponse(more=True).SerializeToString()
    with pytest.raises(InvalidAnswer, match="not full"):
        answers.counts_page(counted() + more)


@pytest.mark.requirement("R382")
async def test_a_bus_cannot_fill_the_operator_with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "RULES_MAX", 10)
    link = link_of()

    hear(link, 0, subscriptions(0, 2, rules=4))
    # Of the same generation: what is known already stays, and counts.
    hear(link, 0, subscriptions(0, 2, rules=0))
    for _ in range(2):
        with pytest.raises(InvalidAnswer, match="more than 10 rules"):
            hear(link, 0, subscriptions(2, 1, rules=4))
    hear(link, 0, subscriptions(0, 2, rules=0, generation=2))
    hear(link, 0, subscriptions(2, 1, rules=4))

    assert link.directory.size() == 3


def subscriptions(first: int, number: int, *, rules: int, generation: int = 1) -> bytes:
    """Return a catalogue of subscriptions with so many rules each."""
    made = entity_pb2.WatchEntitiesResponse(fingerprint=fingerprint(), snapshot=True)
    for index in range(first, first + number):
        one = made.entities.add(name=f"t/Subscriptions/s{index}", uid=f"u{index}", kind=3)
        one.partition_count, one.generation = 2, generation
        for rule in range(rules):
            one.subscription.rules.rules.add(name=f"r{rule}", boolean_filter=True)
    return made.SerializeToString()


def hear(link: BusLink, partition: int, data: bytes) -> bool:
    """Have a link hear a catalogue; return whether it is believed."""
    news = CatalogueReader().read(data)
    assert news is not None
    return link.catalogue(partition, news.fingerprint, news.entries, snapshot=False)


@pytest.mark.requirement("R470")
async def test_a_partition_that_was_away_is_heard_though_its_rules_were_replaced_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "RULES_MAX", 10)
    link = link_of()
    hear(link, 0, subscriptions(0, 2, rules=0, generation=2))
    hear(link, 0, subscriptions(2, 2, rules=4, generation=3))

    believed = hear(link, 1, subscriptions(0, 2, rules=4))

    assert believed


@pytest.mark.integration
@pytest.mark.requirement("R382")
async def test_large_answers_of_partitions_that_know_no_pages_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_link, "READ_AGAIN_S", 0.05)
    names = [f"queue-{number}" for number in range(20_000)]
    entries = [entity(name, uid=name, user_metadata="x" * 100) for name in names]
    rows = [partition_pb2.EntityCounts(uid=name * 12, active=1) for name in names]
    everything = {
        "WatchEntities": snapshot(*entries),
        "GetCounts": partition_pb2.GetCountsResponse(entities=rows).SerializeToString(),
    }
    assert min(len(data) for data in everything.values()) > answers.ANSWER_BYTES_MAX
    ear = Ear()

    async with (
        talking(lambda method: everything[method]) as address,
        linked(address, ear, timeout_s=20) as link,
    ):
        await eventually(lambda: link.reachable)
        found, counts = await link.catalogue(), await link.counts()
        assert link.reachable
        everything["WatchEntities"] = snapshot(*entries, entity("new", uid="new"))
        await eventually(lambda: "new" in ear.names)

    assert found is not None
    assert [entry.name for entry in found] == names
    assert counts is not None
    assert counts == {name * 12: Counts(active=1) for name in names}


@pytest.mark.integration
@pytest.mark.requirement("R382")
async def test_small_parts_and_pages_are_asked_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "COUNTS_A_PAGE", 4)
    monkeypatch.setattr(answers, "PART_BYTES", 300)
    read: list[int] = []
    real = CatalogueReader.read

    def noted(self: CatalogueReader, data: bytes) -> Any:
        read.append(len(data))
        return real(self, data)

    cluster.operator()
    cluster.apply(bus_body())
    await cluster.says("BusNamespace", "orders", "Available")
    for number in range(9):
        await cluster.commit(BUS, entity_pb2.ENTITY_ACTION_CREATE, f"q{number}")
    monkeypatch.setattr(CatalogueReader, "read", noted)
    link = PartitionLink(0, cluster.address(BUS, 0), None, Ear(), timeout_s=5)

    found, counts = await link.catalogue(), await link.counts()
    await link.close()

    assert found is not None
    assert {entry.name for entry in found} == {f"q{number}" for number in range(9)}
    assert max(read) < 600
    assert counts is not None
    assert counts.keys() == {entry.uid for entry in found}
    assert link.asked == 3
