"""Topics and subscriptions through everything: commands, client, front end, partitions, files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.cli.errors import NotFound
from bendybus.client.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from tests.integration.processes import Bus, eventually
from tests.integration.test_command_line import rows, run


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose processes end during a test."""
    made = Bus(tmp_path, partitions=2)
    yield made
    made.end()


@pytest.mark.requirement("R80", "R86")
def test_topics_live_through_commands_outages_and_restarts(own_bus: Bus) -> None:
    bus = own_bus
    for arguments in (("topic", "news"), ("subscription", "news", "a"), ("queue", "orders")):
        done = run(bus, "create", *arguments)
        assert done.returncode == 0, done.stderr

    # While a partition is away, a change is recorded, and the error names the partition.
    bus.partitions[1].kill()
    with bus.administration(retry_total=0) as administration:
        with pytest.raises(HttpResponseError, match=r"partitions \[1\] could not be reached"):
            administration.create_subscription("news", "b", max_delivery_count=3)
        bus.start_partition(1)

        def repeated() -> bool:
            try:
                administration.create_subscription("news", "b", max_delivery_count=3)
            except ResourceExistsError:
                return True
            except HttpResponseError:
                return False
            return True

        eventually(repeated, what="the subscription on every partition")

        for index in bus.partitions:
            bus.partitions[index].kill()
            bus.start_partition(index)

        def listed() -> list[str]:
            done = run(bus, "get", "subscriptions", "news", "-o", "json")
            if done.returncode:
                return []
            return [each["name"] for each in rows(done) if each["availabilityStatus"] != "Limited"]

        eventually(lambda: listed() == ["a", "b"], what="both subscriptions after the restart")
        assert administration.get_subscription("news", "b").max_delivery_count == 3
        assert administration.get_topic_runtime_properties("news").subscription_count == 2

        def deleted() -> bool:
            # Repeated until it is done: the streams to a partition open after it can be read.
            done = run(bus, "delete", "topic", "news", "--yes")
            return done.returncode in (0, NotFound.exit_code)

        eventually(deleted, what="the deletion after the restart")
        with pytest.raises(ResourceNotFoundError):
            administration.get_subscription("news", "a")
        assert [queue.name for queue in administration.list_queues()] == ["orders"]
        assert list(administration.list_topics()) == []


@pytest.mark.requirement("R110", "R111", "R114")
def test_rules_are_made_shown_and_deleted_by_commands(bus: Bus) -> None:
    def done(*arguments: str) -> str:
        result = run(bus, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    done("create", "topic", "departures-cli", "--partitioned")
    done("create", "subscription", "departures-cli", "late")
    rule = ("rule", "departures-cli", "late")
    done("create", *rule, "carrier", "--sql", "carrier IN ('UA', 'DL')", "--action", "SET a = 1")
    done("create", *rule, "label", "--equal", "label=x", "--equal", "color=red")
    done("create", *rule, "never", "--none")
    wrong = run(bus, "create", *rule, "bad", "--sql", "carrier = = 1")
    assert wrong.returncode != 0
    assert "line 1, column 11" in wrong.stderr

    shown = rows(run(bus, "get", "rules", "departures-cli", "late", "-o", "json"))
    assert [each["name"] for each in shown] == ["$Default", "carrier", "label", "never"]
    assert "sys.Label = 'x', color = 'red'" in done("describe", *rule, "label")
    done("delete", *rule, "$Default", "--yes")
    done("send", "departures-cli", "UA is late", "--property", "carrier=UA")
    done("send", "departures-cli", "AA is late", "--property", "carrier=AA")

    received = done("receive", "departures-cli/Subscriptions/late", "-o", "json")
    assert "UA is late" in received
    assert "AA is late" not in received
    described = rows(run(bus, "describe", "subscription", "departures-cli", "late", "-o", "json"))
    assert len(described[0]["spec"]["rules"]) == 3
