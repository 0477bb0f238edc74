"""`bendybus update`: settings of entities that no manifest owns."""

import json

import pytest

from bendybus.domain import durations
from bendybus.domain.entity import Origin
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import FLIGHTS, run

pytestmark = pytest.mark.requirement("R667")
Capture = pytest.CaptureFixture[str]
SET = ("--set", "lockDuration=PT30S", "--set", "maxDeliveryCount=3")


@pytest.fixture
def orders(bus: FakeManagement) -> FakeManagement:
    bus.unreached = ()
    bus.add("orders", Origin.CLIENT, max_delivery_count=3)
    return bus


def settings(bus: FakeManagement, capsys: Capture) -> dict[str, object]:
    capsys.readouterr()
    assert run(bus, "get", "orders", "-o", "json") == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)["spec"]
    return found


def test_settings_are_changed_and_the_others_stay(orders: FakeManagement, capsys: Capture) -> None:
    before = settings(orders, capsys)

    code = run(orders, "update", "queue", "orders", *SET)

    said = capsys.readouterr()
    assert (code, said.out, said.err) == (
        0,
        "queue 'orders': updated; lockDuration is PT30S, was PT1M\n",
        "",
    )
    assert settings(orders, capsys) == {**before, "lockDuration": durations.render(30_000)}


def test_a_repeat_changes_nothing_and_says_so(orders: FakeManagement, capsys: Capture) -> None:
    codes = [run(orders, "update", "queue", "orders", *SET, "-o", "json") for _ in range(2)]

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert codes == [0, 0]
    assert (first["change"], second["change"]) == ("updated", "unchanged")
    assert first["settings"] == {"lockDuration": {"from": "PT1M", "to": "PT30S"}}
    assert second["settings"] == {}
    assert orders.calls == ["update orders"]


def test_a_dry_run_changes_nothing(orders: FakeManagement, capsys: Capture) -> None:
    assert run(orders, "update", "queue", "orders", *SET, "--dry-run") == 0

    assert "updated; lockDuration is PT30S, was PT1M (dry run)" in capsys.readouterr().out
    assert orders.calls == []


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["queue", "orders"], 2, "--set FIELD=VALUE: name at least one setting to change."),
        (["queue", "orders", "--set", "lockDurations=PT1M"], 2, "Did you mean lockDuration?"),
        (["queue", "orders", "--set", "lockDuration=PT1H"], 2, "--set lockDuration: must be"),
        (["queue", "orders", "--set", "requiresSession=true"], 1, "cannot be changed after creat"),
        (["queue", "absent", "--set", "lockDuration=PT30S"], 3, "There is no queue 'absent'."),
        (["topic", "absent", "--set", "status=Disabled"], 3, "there is no topic 'absent'"),
        (["subscription", "t", "s", "--set", "status=Disabled"], 3, "no subscription 't/Sub"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    orders: FakeManagement, capsys: Capture, arguments: list[str], code: int, words: str,
    more: list[str],
) -> None:  # fmt: skip
    assert run(orders, "update", *arguments, *more) == code

    assert words in capsys.readouterr().err
    assert orders.calls == []


def test_what_has_a_manifest_is_changed_there(bus: FakeManagement, capsys: Capture) -> None:
    run(bus, "apply", "-f", FLIGHTS)
    calls = list(bus.calls)

    assert run(bus, "update", "queue", "audit", "--set", "maxDeliveryCount=7") == 1

    said = "queue 'audit' has a manifest: change that, and run bendybus apply -f FILE."
    assert said in capsys.readouterr().err
    assert bus.calls == calls


def test_topics_and_subscriptions_are_updated(bus: FakeManagement, capsys: Capture) -> None:
    run(bus, "create", "topic", "news")
    run(bus, "create", "subscription", "news", "all")
    capsys.readouterr()

    codes = [
        run(bus, "update", "topic", "news", "--set", "userMetadata=note"),
        run(bus, "update", "subscription", "news", "all", "--set", "status=Disabled"),
    ]

    topic, subscription = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert topic.startswith("topic 'news': updated; userMetadata is note, was none")
    assert subscription.startswith(
        "subscription 'news/Subscriptions/all': updated; status is Disabled, was Active"
    )
