"""What a publish costs where many rules do not fit it: the others are not looked at."""

import pytest

from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter
from bendybus.domain.filters.view import MessageView
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.publishing import head, publish, rows
from tests.partition_server.topic_changes import subscription, topic


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[CompiledFilter]:
    """Every filter that is evaluated, in order."""
    seen: list[CompiledFilter] = []
    real = CompiledFilter.rest_matches

    def counted(self: CompiledFilter, view: MessageView) -> bool:
        seen.append(self)
        return real(self, view)

    monkeypatch.setattr(CompiledFilter, "rest_matches", counted)
    return seen


@pytest.mark.requirement("R180")
@pytest.mark.parametrize("sql", [False, True])
def test_filters_that_do_not_match_are_not_evaluated(
    evaluations: list[CompiledFilter], sql: bool
) -> None:
    driver = Driver(MemoryStore(fingerprint()))
    topic(driver)
    for i in range(2_000):
        wanted = (
            SqlFilter("kind = 'a' AND n = @n", {"n": i})
            if sql
            else CorrelationFilter(label="x", properties={"n": i})
        )
        name = f"news/Subscriptions/s{i}"
        subscription(driver, name, changes={"rules": (Rule("r", wanted),)})

    publish(driver, head(n=-1, kind="a"))
    assert evaluations == []
    publish(driver, *[head(n=7, kind="a")] * 3)

    # Nor is the one that matches: there is nothing beside the equalities.
    assert evaluations == []
    assert len(rows(driver, "s7")) == (3 if sql else 0)
