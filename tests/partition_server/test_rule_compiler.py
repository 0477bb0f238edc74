"""SQL of rules is compiled beside the threads of partitions, before they get the rules."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters import sql_text
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.internal.v1 import entity_pb2
from bendybus.partition_server.service.entity_service import EntityService, RuleCompiler
from bendybus.wire import catalogue
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import set_rules
from tests.partition_server.topic_changes import make_news

NAME = "news/Subscriptions/a"


def wait_for(found: list[tuple[str, str]]) -> None:
    """Wait until something is compiled."""
    while not found:
        time.sleep(0.001)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return what is compiled from now on: (text, name of the thread)."""
    found: list[tuple[str, str]] = []
    compile_ = sql_text.compiled_filter

    def noted(text: str, *options: Any) -> Any:
        found.append((text, threading.current_thread().name))
        return compile_(text, *options)

    rules._sql_filter.cache_clear()
    monkeypatch.setattr(sql_text, "compiled_filter", noted)
    return found


class Hosts:
    """A partition whose commands run where they are asked for."""

    threads: Mapping[int, Any] = {}

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def ask(self, partition: int, make: Callable[[Any], Any]) -> Any:
        """Run a command."""
        return self.driver.run(make("t"))[0]


def committed(changes: dict[str, Any], change: RuleChange | None = None) -> Any:
    """Return the call that changes a subscription at the registrar."""
    request = catalogue.commit_request(
        EntityKind.SUBSCRIPTION, NAME, changes, change, action=entity_pb2.ENTITY_ACTION_UPDATE
    )
    return lambda service: service.CommitEntity(request, None)


RULES = tuple(Rule(f"r{i}", SqlFilter(f"x > {i}"), SqlRuleAction("SET y = 1")) for i in range(3))


@pytest.mark.requirement("R186")
@pytest.mark.parametrize(
    ("call", "count"),
    [
        (committed({"rules": RULES}), 3),
        (committed({}, RuleChange(RuleAction.CREATE, RULES[0])), 1),
    ],
)
async def test_the_registrar_gets_rules_that_are_compiled(
    driver: Driver, compiled: list[tuple[str, str]], call: Callable[[Any], Any], count: int
) -> None:
    make_news(driver)

    await call(EntityService(Hosts(driver)))  # type: ignore[arg-type]

    assert len(compiled) == count
    assert threading.current_thread().name not in {name for _, name in compiled}


@pytest.mark.requirement("R186")
async def test_a_copy_brings_rules_that_are_compiled(
    driver: Driver, compiled: list[tuple[str, str]]
) -> None:
    make_news(driver)
    set_rules(driver, "a", *RULES)
    request = catalogue.apply_request(0, driver.partition.state.catalogue.existing())
    rules._sql_filter.cache_clear()
    compiled.clear()

    await EntityService(Hosts(driver)).ApplyEntity(request, None)  # type: ignore[arg-type]

    assert len(compiled) == 3
    assert threading.current_thread().name not in {name for _, name in compiled}


@pytest.mark.requirement("R186")
async def test_one_that_is_cancelled_stops_and_keeps_what_it_has(
    compiled: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [Rule(f"r{i}", SqlFilter(f"y > {i}")) for i in range(1_000)]
    compiler = RuleCompiler()
    call = asyncio.create_task(compiler.prepare(many))
    await asyncio.to_thread(wait_for, compiled)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    before = len(compiled)
    await compiler.prepare(many[: before // 2])
    # What still ran has ended then.
    await asyncio.get_running_loop().shutdown_default_executor()

    assert before < 1_000
    assert len(compiled) <= before + 2


@pytest.mark.requirement("R186")
async def test_one_that_is_wrong_is_left_to_the_decision_on_it(
    compiled: list[tuple[str, str]],
) -> None:
    await RuleCompiler().prepare([Rule("wrong", SqlFilter("x >")), RULES[0]])

    assert [text for text, _ in compiled] == ["x >"]
