"""A change of one rule costs what it changes, however many rules the subscription has."""

import asyncio
import threading

import pytest

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.service import entity_service
from bendybus.partition_server.service.entity_service import RuleCompiler
from bendybus.partition_server.state.commands import ApplyEntity, CommitEntity
from bendybus.partition_server.store import file_format
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.work import steps

pytestmark = pytest.mark.requirement("R622")
NAME = "news/Subscriptions/all"


def change(action: RuleAction, name: str) -> CommitEntity:
    """Return the command that changes a rule of the subscription."""
    rule = Rule(name, CorrelationFilter(label=name))
    return CommitEntity(
        "t",
        EntityAction.UPDATE,
        NAME,
        Origin.CLIENT,
        kind=EntityKind.SUBSCRIPTION,
        rule_change=RuleChange(action, rule),
    )


@pytest.fixture
def topic() -> Driver:
    """Return a registrar with a topic that has a subscription."""
    driver = Driver(MemoryStore(fingerprint()))
    for name, kind in (("news", EntityKind.TOPIC), (NAME, EntityKind.SUBSCRIPTION)):
        create = CommitEntity(
            "t", EntityAction.CREATE, name, Origin.CLIENT, uid=f"uid-{kind}", kind=kind
        )
        [made] = driver.run(create)
        assert isinstance(made, Entity), made
    return driver


def entry(driver: Driver) -> Entity:
    """Return the subscription as it is now."""
    found = driver.partition.state.catalogue.by_key(NAME.lower())
    assert found is not None
    return found


def cost(driver: Driver, number: int) -> list[int]:
    """Return the work of an added, a changed and a deleted rule: decided, stored, in effect."""

    def run(action: RuleAction, name: str) -> None:
        [made] = driver.run(change(action, name))
        assert isinstance(made, Entity), made
        file_format.entity_to_json(made)

    return [
        steps(lambda: run(RuleAction.CREATE, f"new{number}")),
        steps(lambda: run(RuleAction.UPDATE, f"new{number}")),
        steps(lambda: run(RuleAction.DELETE, f"new{number}")),
    ]


def test_the_two_thousandth_rule_costs_the_registrar_as_much_as_the_first(topic: Driver) -> None:
    cost(topic, 0)
    few = cost(topic, 1)
    for number in range(1_900):
        topic.run(change(RuleAction.CREATE, f"r{number}"))

    many = cost(topic, 2)

    assert [round(more / less, 1) for more, less in zip(many, few, strict=True)] == [1.0] * 3


def test_it_costs_those_that_copy_it_as_much_as_the_first(topic: Driver) -> None:
    def costs(partition: Driver, number: int) -> int:
        topic.run(change(RuleAction.CREATE, f"new{number}"))
        entries = [topic.partition.state.catalogue.by_key("news"), entry(topic)]
        take = ApplyEntity("t", [each for each in entries if each is not None])
        return steps(lambda: partition.run(take))

    copy = Driver(MemoryStore(fingerprint(1)))
    costs(copy, 0)
    few = costs(copy, 1)
    for number in range(1_900):
        topic.run(change(RuleAction.CREATE, f"r{number}"))
    costs(copy, 2)

    assert costs(copy, 3) <= few * 1.1


async def test_only_rules_that_are_new_are_compiled_before_a_partition_takes_them(
    topic: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, compiled = RuleCompiler(), list[list[str]]()

    async def prepare(given: list[Rule]) -> None:
        compiled.append([each.name for each in given])

    monkeypatch.setattr(compiler, "prepare", prepare)
    await compiler.prepare_entries(1, [entry(topic)])
    topic.run(change(RuleAction.CREATE, "red"))
    await compiler.prepare_entries(1, [entry(topic)])
    topic.run(change(RuleAction.DELETE, "red"))
    await compiler.prepare_entries(1, [entry(topic)])
    # Compiled by then, and looked at again: more may be in the way than a process keeps compiled.
    await compiler.prepare_entries(2, [entry(topic)])

    assert compiled == [["$Default"], ["red"], [], ["$Default"]]


async def test_a_partition_waits_for_rules_that_are_compiled_for_another(
    topic: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would compile them on its own thread, and stand still for as long."""
    compiler, compiling, end = RuleCompiler(), threading.Event(), threading.Event()

    def compile_(wanted: list[Rule], cancelled: threading.Event) -> None:
        compiling.set()
        end.wait(10)

    monkeypatch.setattr(entity_service, "_compile", compile_)
    rule = Rule("sql", SqlFilter("a = 1"))
    create = change(RuleAction.CREATE, "sql")
    create.rule_change = RuleChange(RuleAction.CREATE, rule)
    topic.run(create)
    takes = [
        asyncio.ensure_future(compiler.prepare_entries(partition, [entry(topic)]))
        for partition in (1, 2)
    ]
    await asyncio.to_thread(compiling.wait, 10)
    await asyncio.sleep(0)

    assert not any(each.done() for each in takes)
    end.set()
    await asyncio.gather(*takes)


async def test_a_call_that_is_cancelled_has_compiled_nothing(
    topic: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, asked = RuleCompiler(), list[int]()

    async def prepare(given: list[Rule]) -> None:
        asked.append(len(given))
        if len(asked) == 1:
            raise asyncio.CancelledError

    monkeypatch.setattr(compiler, "prepare", prepare)
    with pytest.raises(asyncio.CancelledError):
        await compiler.prepare_entries(1, [entry(topic)])
    await compiler.prepare_entries(1, [entry(topic)])

    assert asked == [1, 1]
