"""`apply` of topics and subscriptions against a management service in memory."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.cli.bus import manifests
from bendybus.cli.bus.management import Management
from bendybus.crds import bundling, emulator_config, loading
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain import descriptions
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import EntityAlreadyExists, InvalidArgument
from bendybus.domain.limits import Tier
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import FLIGHTS, run

STRING = "Endpoint=sb://{};SharedAccessKey=x;UseDevelopmentEmulator=true"
TOPICS = """
apiVersion: bendybus.io/v1alpha1
kind: Subscription
metadata: {name: audit}
spec: {namespaceRef: {name: flights}, topicName: delays, maxDeliveryCount: 3}
---
apiVersion: bendybus.io/v1alpha1
kind: Topic
metadata: {name: delays}
spec: {namespaceRef: {name: flights}, enablePartitioning: true}
"""


@pytest.mark.requirement("R137")
def test_apply_makes_topics_before_their_subscriptions_and_changes_them(
    bus: FakeManagement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(TOPICS)
    codes = [run(bus, "apply", "-f", str(file)) for _ in range(2)]
    file.write_text(TOPICS.replace("maxDeliveryCount: 3", "maxDeliveryCount: 4"))
    codes.append(run(bus, "apply", "-f", str(file), "--json"))
    shown = capsys.readouterr().out.splitlines()

    assert codes == [0, 0, 0]
    told = [line.split(";")[0] for line in shown[:4]]
    assert told == [
        "topic 'delays': created",
        "subscription 'delays/Subscriptions/audit': created",
        "topic 'delays': unchanged",
        "subscription 'delays/Subscriptions/audit': unchanged",
    ]
    changes = [json.loads(line) for line in shown[4:]]
    assert [(each["kind"], each["change"]) for each in changes] == [
        ("Topic", "unchanged"),
        ("Subscription", "updated"),
    ]


@pytest.mark.requirement("R260")
def test_rules_are_the_manifests_or_the_clients_and_what_did_not_change_is_unchanged(
    bus: FakeManagement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topics.yaml"
    ruled = TOPICS.replace(
        "maxDeliveryCount: 3", "rules: [{name: red, sqlFilter: {sqlExpression: c = 'red'}}]"
    )
    told = []
    for text in (ruled, ruled, TOPICS.replace(", maxDeliveryCount: 3", ""), TOPICS, TOPICS):
        file.write_text(text)
        run(bus, "apply", "-f", str(file), "--json")
        described = bus.topics.directory.find("delays/Subscriptions/audit", EntityKind.SUBSCRIPTION)
        assert isinstance(described.description, SubscriptionDescription)
        changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        told.append((changes[1]["change"], described.manifest_rules))
        assert [each.name for each in described.description.rules] == ["red"]

    assert told == [
        ("created", True),
        ("unchanged", True),
        ("updated", False),
        ("updated", False),
        ("unchanged", False),
    ]


@pytest.mark.requirement("R137")
@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (TOPICS.split("---")[0], "topic 'delays' does not exist. Add its manifest"),
        (TOPICS.replace("name: audit", "name: audit-"), "name"),
        (TOPICS.replace("topicName: delays, ", ""), "spec.topicName: is missing"),
        (TOPICS.replace("enablePartitioning", "lockDuration"), "is not a known field"),
        (
            f"{TOPICS}---{TOPICS.split('---')[1].replace('Topic', 'Queue')}",
            "already the name of the topic",
        ),
    ],
)
def test_apply_refuses_what_topics_cannot_be_and_makes_nothing(
    bus: FakeManagement,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    manifest: str,
    sentence: str,
) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(manifest)

    code = run(bus, "apply", "-f", str(file))

    assert code != 0
    assert sentence in capsys.readouterr().err
    assert bus.calls == []


@pytest.mark.requirement("R137")
def test_apply_says_what_is_in_no_manifest_any_more_of_every_kind(
    bus: FakeManagement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(TOPICS)
    run(bus, "apply", "-f", str(file))
    capsys.readouterr()

    run(bus, "apply", "-f", FLIGHTS)

    kept = [line for line in capsys.readouterr().out.splitlines() if "kept" in line]
    assert kept == [
        "topic 'delays': kept (in none of these manifests)",
        "subscription 'delays/Subscriptions/audit': kept (in none of these manifests)",
    ]


@pytest.mark.requirement("R200")
def test_apply_makes_nothing_that_a_basic_bus_lacks(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(
        "apiVersion: bendybus.io/v1alpha1\nkind: Queue\nmetadata: {name: q}\n"
        "spec: {namespaceRef: {name: b}, requiresDuplicateDetection: true}\n"
    )
    bundle = bundling.bundle(loading.load([file]), running=NamespaceSettings("b", Tier.BASIC))

    with pytest.raises(InvalidArgument, match="this one is Basic"):
        manifests.plan(bundle, [])


@pytest.mark.requirement("R502")
def test_rules_that_config_json_drops_give_way_to_the_default_rule(bus: FakeManagement) -> None:
    filtered = {
        "Name": "red",
        "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "c = 'red'"}},
    }

    def apply(*rules: object) -> tuple[list[tuple[str, bool]], list[str], bool]:
        topic = {"Name": "delays", "Subscriptions": [{"Name": "audit", "Rules": list(rules)}]}
        namespace = {"Name": "flights", "Topics": [topic]}
        config = {"UserConfig": {"Namespaces": [namespace]}}
        bundle = emulator_config.convert("Config.json", config).bundle
        with Management(STRING.format(bus.address)) as management:
            outcomes = manifests.apply(
                manifests.ManifestEntities(management), bundle, manifests.Patience(5)
            )
        found = bus.topics.directory.find("delays/Subscriptions/audit", EntityKind.SUBSCRIPTION)
        assert isinstance(found.description, SubscriptionDescription)
        steps = [(each.step.change.value, each.step.drops_rules) for each in outcomes]
        return steps[1:], [each.name for each in found.description.rules], found.manifest_rules

    told = [apply(filtered), apply(), apply(), apply(filtered)]

    assert told == [
        ([("created", False)], ["red"], True),
        ([("updated", True)], ["$Default"], False),
        ([("unchanged", False)], ["$Default"], False),
        ([("updated", False)], ["red"], True),
    ]


def queues(**forwards: str) -> str:
    """Return manifests of queues: name → what else its spec has."""
    return "\n---\n".join(
        f"apiVersion: bendybus.io/v1alpha1\nkind: Queue\nmetadata: {{name: {name}}}\n"
        f"spec: {{namespaceRef: {{name: flights}}{more}}}"
        for name, more in forwards.items()
    )


@pytest.mark.requirement("R265")
@pytest.mark.parametrize(
    ("manifests", "sentence"),
    [
        (
            queues(a=", forwardTo: B", b=", forwardTo: c", c=", forwardTo: a", d=", forwardTo: a"),
            "messages would come back: they go from",
        ),
        (queues(a=", forwardTo: a"), "they go from 'a' to 'a'. Remove one of these forwards."),
        (
            TOPICS.replace("maxDeliveryCount: 3", "forwardTo: q")
            + "---\n"
            + queues(q=", forwardTo: delays"),
            "messages would come back: they go from",
        ),
        (
            queues(a=", forwardDeadLetteredMessagesTo: b", b=", forwardDeadLetteredMessagesTo: a"),
            "neither can be created first. Apply one of them without "
            "spec.forwardDeadLetteredMessagesTo",
        ),
    ],
)
def test_apply_names_a_cycle_of_forwarding_and_makes_nothing(
    bus: FakeManagement,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    manifests: str,
    sentence: str,
) -> None:
    file = tmp_path / "cycle.yaml"
    file.write_text(manifests)

    code = run(bus, "apply", "-f", str(file))

    told = capsys.readouterr().err
    assert code != 0
    assert sentence in " ".join(told.split())
    assert "does not exist" not in told
    assert not [call for call in bus.calls if "Create" in call]


@pytest.mark.requirement("R265")
@pytest.mark.parametrize("field", ["forwardTo", "forwardDeadLetteredMessagesTo"])
def test_a_destination_that_does_not_exist_is_named_with_its_manifest_and_nothing_is_made(
    bus: FakeManagement, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(queues(a="", b=f", {field}: nope"))

    code = run(bus, "apply", "-f", str(file))

    assert code != 0
    assert (
        "queues.yaml, document 2: queue 'b' forwards to 'nope', which does not exist. Declare it, "
        f"too, or correct {field}."
    ) in " ".join(capsys.readouterr().err.split())
    assert not [call for call in bus.calls if "Create" in call]


@pytest.mark.requirement("R265")
def test_dead_letters_of_two_queues_that_exist_may_go_to_each_other(
    bus: FakeManagement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mutual.yaml"
    codes = []
    for text in (
        queues(a="", b=", forwardDeadLetteredMessagesTo: a"),
        queues(a=", forwardDeadLetteredMessagesTo: b", b=", forwardDeadLetteredMessagesTo: a"),
    ):
        file.write_text(text)
        codes.append(run(bus, "apply", "-f", str(file)))

    assert codes == [0, 0], capsys.readouterr().err


@pytest.mark.requirement("R502")
def test_a_config_takes_over_what_a_client_made_and_manifests_do_not() -> None:
    text = b'{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}]}]}}'
    bundle = emulator_config.parse("Config.json", text, partition_count=1).bundle
    [wish] = bundle.entities
    settled = descriptions.settled(wish.description, tier=Tier.PREMIUM, partition_count=1)
    own = manifests.Existing("q", settled, 7, has_manifest=False, orphaned=False)

    [taken] = manifests.plan(bundle, [own])
    [kept] = manifests.plan(bundle, [replace(own, has_manifest=True)])

    assert (taken.change, taken.generation) == (manifests.Change.UPDATED, 7)
    assert kept.change is manifests.Change.UNCHANGED
    with pytest.raises(EntityAlreadyExists, match="was created by an administration call"):
        manifests.plan(replace(bundle, takes_over=False), [own])
