"""Whatever a partition answers ends nothing but its own bus."""

import random
from typing import Any

import pytest

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import PartitionUnavailable
from bendybus.domain.limits import STANDARD_PARTITION_COUNT
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer, Share
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.decisions.conditions import ANSWER_NOT_UNDERSTOOD, Counts
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, queue_body
from tests.operator.talker import IDENTITY, counted, entity, snapshot, talking
from tests.operator.test_partition_link import Ear, linked

STRANGE: dict[str, bytes] = {
    "a tier of another version": snapshot(tier="Turbo"),
    "no tier": snapshot(tier=""),
    "a status of another version": snapshot(entity(status=77)),
    "so many partitions": snapshot(entity(partition_count=2**32 - 1)),
    "a bus of so many": snapshot(partition_count=2**32 - 1),
    "a home that is none": snapshot(entity(home_partition=4_000_000)),
    "a name without end": snapshot(entity(name="x" * 1_000_000)),
    "no name": snapshot(entity(name="")),
    "a name with escape codes": snapshot(entity(name="a\x1b[2J")),
    "a note without end": snapshot(entity(user_metadata="x" * 1_000_000)),
    "no protobuf": b"\xff\xff\xff\xff",
    "no UTF-8": b"\x12\x03\x0a\x01\xff",
}


@pytest.mark.parametrize("said", STRANGE)
@pytest.mark.integration
async def test_a_catalogue_that_cannot_be_understood_makes_its_partition_unreachable(
    said: str,
) -> None:
    good = snapshot(entity())
    catalogue = STRANGE[said]
    ear = Ear()

    def answer(method: str) -> bytes:
        return catalogue if method == "WatchEntities" else b""

    async with talking(answer) as address, linked(address, ear) as link:
        await eventually(lambda: link.invalid_answer)
        assert not link.reachable
        assert ear.said == []
        assert len(link.invalid_answer) <= answers.SENTENCE_CHARS_MAX + 1
        assert link.invalid_answer.isprintable()

        catalogue = good
        await eventually(lambda: link.reachable)
        assert link.invalid_answer == ""


@pytest.mark.integration
@pytest.mark.parametrize("garbage", [b"\xff\xff", b"\x1a\x03\x0a\x01x"])
async def test_a_refusal_with_garbage_for_details_is_a_refusal(garbage: bytes) -> None:
    async with talking(lambda _: b"", trailer=garbage) as address:
        link = PartitionLink(0, address, None, Ear(), timeout_s=5)

        assert await link.counts() is None
        with pytest.raises(Exception, match=r"x{400}") as caught:
            await link.commit(entity_pb2.CommitEntityRequest())

        assert len(str(caught.value)) < 2 * answers.SENTENCE_CHARS_MAX
        await link.close()


@pytest.mark.integration
async def test_an_answer_to_a_change_that_cannot_be_understood_is_none() -> None:
    wrong = entity_pb2.CommitEntityResponse(entity=entity(status=9)).SerializeToString()

    for answer in (wrong, b"\xff\xff", b""):
        async with talking(lambda _, answer=answer: answer) as address:  # type: ignore[misc]
            link = PartitionLink(0, address, None, Ear(), timeout_s=5)
            with pytest.raises(PartitionUnavailable, match="cannot be parsed"):
                await link.commit(entity_pb2.CommitEntityRequest())
            await link.close()


@pytest.mark.integration
async def test_a_negative_count_hides_no_message() -> None:
    def answer(_: str) -> bytes:
        return counted(active=-5, deferred=3, size_in_bytes=-1)

    async with talking(answer) as address:
        link = PartitionLink(0, address, None, Ear(), timeout_s=5)
        found = await link.counts()
        await link.close()

    assert found == {"paid-1": Counts(deferred=3)}


def test_every_field_of_counts_is_a_state_or_known_to_be_none() -> None:
    """Else the guard against deletion would not count a kind of message that comes later."""
    fields = {field.name for field in partition_pb2.EntityCounts.DESCRIPTOR.fields}

    assert fields == set(answers.STATES) | answers.NO_STATES
    for field, attribute in answers.STATES.items():
        one = partition_pb2.EntityCounts(uid="a", **{field: 1})
        data = partition_pb2.GetCountsResponse(entities=[one]).SerializeToString()
        (found,) = answers.counts_page(data).counts.values()
        assert getattr(found, attribute) == 1
        assert found.messages == 1, f"{field} is not counted as a message"


def test_words_that_a_status_cannot_carry_are_left_out() -> None:
    said = ["ClockJump", "Ready", "Clock Jump", "x\x1b", "", "A" * 100, "DiskLow", "ClockJump"]

    assert answers.conditions(said) == ("ClockJump", "DiskLow")
    assert len(answers.conditions(f"Word{'a' * n}" for n in range(50))) <= answers.CONDITIONS_MAX


def link_of() -> BusLink:
    return BusLink(
        BUS,
        IDENTITY,
        None,
        timeout_s=1,
        entities_changed=lambda _: None,
        reachability_changed=lambda: None,
        address=lambda *_: "x:1",
    )


async def test_a_bus_cannot_fill_the_operator_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ENTRIES_MAX", 100)
    link = link_of()
    reader = answers.CatalogueReader()
    first = reader.read(snapshot(*(entity(f"q{n}", uid=f"u{n}") for n in range(80))))
    assert first is not None

    for partition in (0, 1, 0):
        assert link.catalogue(partition, first.fingerprint, first.entries, snapshot=True)
    then = reader.read(snapshot(*(entity(f"r{n}", uid=f"v{n}") for n in range(80))))
    assert then is not None
    with pytest.raises(InvalidAnswer, match="more than 100"):
        link.catalogue(1, then.fingerprint, then.entries, snapshot=False)

    assert link.directory.size() == 80


def test_a_bus_that_never_stops_talking_gets_its_share_of_time() -> None:
    share = Share(reserve_s=1.0, share=0.1)
    now_s, worked_s = 100.0, 0.0

    while now_s < 200.0:
        pause_s = share.spend(0.05, now_s)
        worked_s += 0.05
        now_s += 0.05 + pause_s

    assert 10.0 <= worked_s <= 12.0, "a tenth, and the reserve"


def mutated(chooser: random.Random, data: bytes) -> bytes:
    """Return bytes that were changed, cut, doubled or mixed up."""
    made = bytearray(data)
    for _ in range(chooser.randint(0, 6)):
        if not made:
            break
        at = chooser.randrange(len(made))
        match chooser.randrange(4):
            case 0:
                made[at] = chooser.randrange(256)
            case 1:
                del made[at : at + chooser.randint(1, 8)]
            case 2:
                made[at:at] = chooser.randbytes(chooser.randint(1, 8))
            case _:
                made += made[at : at + 40]
    return bytes(made)


def random_entity(chooser: random.Random) -> entity_pb2.Entity:
    """Return an entry whose fields are anything."""
    made = entity(chooser.choice(["paid", "PAID", "q", "a/b", "other"]))
    for field in made.DESCRIPTOR.fields:
        if chooser.random() < 0.3 and field.name != "queue":
            kind = type(getattr(made, field.name))
            value: Any = chooser.choice([0, 1, 2, 2**31 - 1])
            if kind is str:
                value = chooser.choice(["", "x", "\x00", "é" * 300, "paid-1", "paid"])
            setattr(made, field.name, kind(value))
    if chooser.random() < 0.3:
        made.queue.status = chooser.randrange(10)  # type: ignore[assignment]
    return made


def anything(chooser: random.Random, method: str) -> bytes:
    """Return an answer to a method: well-formed nonsense, mutated or not."""
    some = [random_entity(chooser) for _ in range(chooser.randint(0, 3))]
    if method == "WatchEntities":
        data = snapshot(*some, tier=chooser.choice(["Premium", "Premium", "Turbo"]))
    elif method == "GetCounts":
        numbers = {name: chooser.choice([-(2**63), -1, 0, 5, 2**63 - 1]) for name in answers.STATES}
        data = counted(**numbers)
        words = partition_pb2.GetCountsResponse(conditions=["Ready", "DiskLow", "\x1b[2J"])
        data += words.SerializeToString()
    else:
        data = entity_pb2.CommitEntityResponse(entity=random_entity(chooser)).SerializeToString()
    return mutated(chooser, data) if chooser.random() < 0.5 else data


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_that_a_bus_answers_ends_the_operator_for_another(
    cluster: Cluster, seed: int
) -> None:
    chooser = random.Random(seed)
    asked: list[str] = []
    cluster.held_back = set(range(STANDARD_PARTITION_COUNT))
    evil = type(BUS)("shop", "orders")
    addresses = [cluster.address(evil, index) for index in (0, 1)]

    def answer(method: str) -> bytes:
        asked.append(method)
        return anything(chooser, method)

    async with talking(answer, addresses[0], ends=True), talking(answer, addresses[1], ends=True):
        operator = cluster.operator(counts_every_s=0.02)
        cluster.apply(bus_body())
        cluster.apply(queue_body())
        await eventually(lambda: len(asked) > 60, "the bus is asked")
        cluster.held_back = set()
        cluster.apply(bus_body("good", uid="bus-2"))
        cluster.apply(queue_body("fine", namespaceRef={"name": "good"}))

        await cluster.says("Queue", "fine", "Available")
        assert not operator.task.done()


@pytest.mark.integration
async def test_a_status_says_that_answers_are_not_understood(cluster: Cluster) -> None:
    cluster.held_back = {0, 1}

    def answer(method: str) -> bytes:
        return snapshot(tier="Turbo") if method == "WatchEntities" else b""

    async with talking(answer, cluster.address(BUS, 0), ends=True):
        cluster.operator()
        cluster.apply(bus_body())

        def said() -> list[str]:
            status = cluster.api.one("BusNamespace", "orders").get("status") or {}
            return [each["type"] for each in status.get("conditions") or []]

        await eventually(lambda: ANSWER_NOT_UNDERSTOOD in said())


@pytest.mark.integration
async def test_a_controller_that_fails_is_restarted_and_others_do_not_notice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    operator = cluster.operator()
    monkeypatch.setattr(
        "bendybus.operator.controllers.controller_manager.RESTART", Backoff(0.05, 60.0)
    )
    real = operator.manager._shared.buses.reconcile
    broken = True

    async def reconcile(view: Any) -> Any:
        if view.key.name == "orders" and broken:
            raise RuntimeError("a mistake of ours")
        return await real(view)

    monkeypatch.setattr(operator.manager._shared.buses, "reconcile", reconcile)
    cluster.apply(bus_body())
    cluster.apply(bus_body("good", uid="bus-2"))
    cluster.apply(queue_body("fine", namespaceRef={"name": "good"}))
    await cluster.says("Queue", "fine", "Available")
    await eventually(lambda: "its controller failed" in caplog.text)
    assert not operator.task.done()

    broken = False

    await cluster.says("BusNamespace", "orders", "Available")
    labels = {"namespace": "shop", "bus": "orders"}
    registry = operator.manager._metrics.registry
    failures = registry.get_sample_value("bendybus_operator_keeper_failures_total", labels)
    assert failures is not None
    assert failures >= 1
