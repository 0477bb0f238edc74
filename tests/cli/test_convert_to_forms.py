"""`convert --as`, `apply --from` and `up --config`: files go out and in, on a bus in memory."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bendybus.cli import __main__ as command
from bendybus.crds.imports import reading
from tests.cli.conftest import FakeKubectl
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import FLIGHTS, run
from tests.crds.public_files import CORPUS

Capture = pytest.CaptureFixture[str]
AZ = CORPUS / "az-queue.json"
POLICIES = """
apiVersion: bendybus.io/v1alpha1
kind: BusNamespace
metadata: {name: shop-bus}
spec:
  storage: {size: 1Gi}
  authorizationRules: [{name: app, rights: [Manage]}]
---
apiVersion: bendybus.io/v1alpha1
kind: Queue
metadata: {name: orders}
spec: {namespaceRef: {name: shop-bus}, userMetadata: note}
"""


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    file = tmp_path / "bus.yaml"
    file.write_text(POLICIES)
    return str(file)


@pytest.mark.requirement("R661")
@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("manifests", "kind: Queue"),
        ("arm", '"type": "Microsoft.ServiceBus/namespaces/queues"'),
        ("terraform", '"azurerm_servicebus_queue"'),
        ("emulator", '"UserConfig"'),
    ],
)
def test_manifests_are_written_in_each_form(
    capsys: Capture, manifests: str, form: str, words: str
) -> None:
    assert command.main(["convert", manifests, "--as", form]) == 0

    assert words in capsys.readouterr().out


@pytest.mark.requirement("R661")
def test_what_a_form_lacks_is_said_and_strict_fails(capsys: Capture, manifests: str) -> None:
    codes = [
        command.main(["convert", manifests, "--as", "terraform", *more])
        for more in ([], ["--strict"])
    ]

    said = capsys.readouterr()
    assert codes == [0, 1]
    assert "not supported: queue orders.userMetadata: note has no place in files of Terraform." in (
        said.err
    )
    assert "not supported: BusNamespace shop-bus.storage: is about the cluster." in said.err
    assert "--strict: 2 fields were changed or are not supported. Nothing is written." in said.err


@pytest.mark.requirement("R661")
def test_names_that_azure_does_not_have_are_said(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    bus, queue = POLICIES.replace("shop-bus", "s").split("---")
    file.write_text(f"{bus}---{queue.replace('spec: {', 'spec: {entityName: _x, ')}")

    codes = [command.main(["convert", str(file), "--as", form]) for form in ("arm", "emulator")]

    said = capsys.readouterr().err
    assert codes == [0, 0]
    assert said.count("needs another name") == 3
    assert "changed: BusNamespace s: needs another name: 6 to 50 letters, digits and -" in said
    assert said.count("changed: queue _x: needs another name: a letter or digit is first") == 2


@pytest.mark.requirement("R661")
def test_manifests_of_the_operator_need_a_location_and_a_group(
    capsys: Capture, manifests: str
) -> None:
    values = ["--set", "location=west", "--set", "resourceGroup=group"]
    codes = [command.main(["convert", manifests, "--as", "aso", *more]) for more in ([], values)]

    said = capsys.readouterr()
    spec = next(yaml.safe_load_all(said.out))["spec"]
    assert codes == [1, 0]
    assert "location: is needed by Azure Service Operator: give it with --set location=NAME." in (
        said.err
    )
    assert (spec["location"], spec["owner"]) == ("west", {"name": "group"})


@pytest.mark.requirement("R661")
def test_one_object_of_json_has_the_documents_and_the_report(
    capsys: Capture, manifests: str, tmp_path: Path
) -> None:
    for more in ([], ["--to", str(tmp_path / "out")]):
        assert command.main(["convert", manifests, "--as", "arm", "-o", "json", *more]) == 0

    found, to_file = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["form"], len(found["documents"])) == ("arm", 1)
    assert found["report"] == [
        {
            "path": "BusNamespace shop-bus.storage",
            "outcome": "not supported",
            "detail": "is about the cluster.",
        }
    ]
    assert to_file["documents"] == []
    assert json.loads((tmp_path / "out").read_text())["resources"]


@pytest.mark.requirement("R662")
def test_the_bus_that_runs_is_written(bus: FakeManagement, capsys: Capture) -> None:
    run(bus, "apply", "-f", FLIGHTS)
    capsys.readouterr()

    code = run(bus, "convert")

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert code == 0
    assert [(each["kind"], each["metadata"]["name"]) for each in documents[:2]] == [
        ("BusNamespace", "flights"),
        ("Queue", "audit"),
    ]


def azure_template(tmp_path: Path, *resources: dict[str, Any]) -> str:
    """Return a file with a template that has a parameter of the name `location`."""
    kind = "Microsoft.ServiceBus/namespaces"
    parameters = {"location": {"type": "string"}, "n": {"type": "int", "defaultValue": 7}}
    own = {"type": kind, "name": "[concat('shop-', parameters('location'))]"}
    file = tmp_path / "azuredeploy.json"
    found = [{**each, "type": f"{kind}/{each['type']}"} for each in resources]
    document = {"contentVersion": "1", "parameters": parameters, "resources": [own, *found]}
    file.write_text(json.dumps(document))
    return str(file)


@pytest.mark.requirement("R661")
def test_a_template_and_the_operator_may_have_values_of_one_name(
    capsys: Capture, tmp_path: Path
) -> None:
    file = azure_template(tmp_path)
    values = ["--set", "location=west", "--set", "resourceGroup=group"]

    codes = [
        command.main(["convert", file, "--as", "aso", *values, *more])
        for more in ([], ["--set", "other=1"])
    ]

    said = capsys.readouterr()
    spec = next(yaml.safe_load_all(said.out))["spec"]
    assert codes == [0, 1]
    assert (spec["azureName"], spec["location"]) == ("shop-west", "west")
    assert "has no 'other', which is given." in said.err


@pytest.mark.requirement("R661")
def test_policies_have_their_own_names_in_other_forms(capsys: Capture, tmp_path: Path) -> None:
    policy = {"type": "authorizationRules", "name": "shop-eu/my.app_1",
              "properties": {"rights": ["Send"]}}  # fmt: skip
    file = azure_template(tmp_path, policy)

    code = command.main(["convert", file, "--set", "location=eu", "--as", "terraform"])
    said = capsys.readouterr()
    command.main(["convert", file, "--set", "location=eu"])

    [found] = json.loads(said.out)["resource"][
        "azurerm_servicebus_namespace_authorization_rule"
    ].values()
    assert (code, found["name"]) == (0, "my.app_1")
    assert "the policy is called" not in said.err
    assert "the policy is called my-app-1: on a bus" in capsys.readouterr().err


@pytest.mark.requirement("R661")
def test_more_yaml_than_is_read_again_is_said(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "YAML_BYTES_MAX", 1 << 20)
    metadata = {"userMetadata": "x" * 1_000}
    queues = [{"type": "queues", "name": f"shop-eu/q{number}", "properties": metadata}
              for number in range(1_000)]  # fmt: skip

    code = command.main(["convert", azure_template(tmp_path, *queues), "--set", "location=eu"])

    assert code == 0
    assert "1 MB of YAML: bendybus convert reads 1 MB at most. bendybus up and apply" in (
        capsys.readouterr().err
    )


@pytest.mark.requirement("R662")
def test_policies_that_a_connection_does_not_show_are_said(
    bus: FakeManagement, capsys: Capture
) -> None:
    run(bus, "apply", "-f", FLIGHTS)

    assert run(bus, "convert", "--strict") == 1

    assert "not supported: BusNamespace flights.authorizationRules: are in the manifest of" in (
        capsys.readouterr().err
    )


@pytest.mark.requirement("R662")
def test_policies_of_a_file_are_not_those_of_a_bus_on_one_machine(
    bus: FakeManagement, capsys: Capture, tmp_path: Path
) -> None:
    found = json.loads(AZ.read_text(encoding="utf-8"))
    ids = next(each["id"] for each in found).partition("/queues/")[0]
    policy = {"id": f"{ids}/authorizationRules/app", "rights": ["Send"]}
    file = tmp_path / "bus.json"
    file.write_text(json.dumps([*found, policy]))

    assert run(bus, "apply", "--from", str(file)) == 0

    assert f"{file}: its policies are left out: a bus on one machine takes every key, and" in (
        capsys.readouterr().err
    )


@pytest.mark.requirement("R662")
@pytest.mark.parametrize(
    "arguments", [("--set", "a=b"), ("--only", "x"), ("--form", "arm"), ("--premium", "4")]
)
def test_options_of_files_are_for_files(
    bus: FakeManagement, capsys: Capture, arguments: tuple[str, str]
) -> None:
    assert run(bus, "convert", *arguments) == 2

    assert f"{arguments[0]} is for a file to convert." in capsys.readouterr().err


@pytest.mark.requirement("R662")
def test_entities_of_a_file_are_applied_to_the_bus_that_runs(
    bus: FakeManagement, capsys: Capture
) -> None:
    codes = [run(bus, "apply", "--from", str(AZ), *more) for more in ([], ["-o", "json"])]

    said = capsys.readouterr()
    assert codes == [0, 0]
    assert "create orders" in bus.calls
    changes = [json.loads(line) for line in said.out.splitlines() if line.startswith("{")]
    assert {each["change"] for each in changes} == {"unchanged"}


@pytest.mark.requirement("R662")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Name manifests with -f, or a file of another program with --from."),
        (("-f", FLIGHTS, "--from", str(AZ)), 2, "--from: cannot be combined with --file."),
        (("-f", str(AZ)), 2, f"--file: {AZ} has no manifests, but is a file of az servicebus: "),
        (("-f", FLIGHTS, "--set", "a=b"), 2, "--set is for the file of --from."),
        (("--from", FLIGHTS), 2, "has manifests: give it with bendybus apply -f."),
        (("--from", str(AZ), "--set", "a=b"), 2, "--set and --parameters are for templates"),
        (("--from", str(CORPUS / "aso-subscription.yaml")), 1, "the file has no NamespacesTopic"),
    ],
)
def test_what_cannot_be_applied_is_said_and_changes_nothing(
    bus: FakeManagement, capsys: Capture, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert run(bus, "apply", *arguments) == code

    assert words in capsys.readouterr().err
    assert bus.calls == []


@pytest.mark.requirement("R662")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "a=b"), "--set is for the file of --config. Leave it out."),
        (("--config", FLIGHTS), "has manifests: give it with bendybus up -f."),
        (("-f", str(AZ)), "bendybus up takes it with --config, bendybus apply with --from."),
    ],
)
def test_up_takes_values_for_its_file_only(
    capsys: Capture, arguments: tuple[str, ...], words: str
) -> None:
    assert command.main(["up", *arguments]) == 2

    assert words in capsys.readouterr().err


def answers(kubectl: FakeKubectl, **more: Any) -> None:
    """Say that the cluster has one bus, shop, of tier Standard."""
    body = {
        "metadata": {"name": "shop", "namespace": "apps"},
        "spec": {"sku": {"tier": "Standard"}},
    }
    kubectl.answers(
        get_busnamespaces={"out": json.dumps(body)}, apply={"out": "queue created\n"}, **more
    )


@pytest.mark.requirement("R662")
def test_on_a_cluster_the_manifests_of_a_file_are_for_the_bus_that_is_named(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    answers(kubectl)

    code = command.main(["--bus", "shop", "apply", "--from", str(AZ), "--wait", "0"])

    said = capsys.readouterr()
    assert (code, said.out) == (0, "queue created\n")
    assert "what is in shop" not in said.err
    assert kubectl.calls()[-1]["arguments"][0] == "apply"


@pytest.mark.requirement("R662")
def test_on_a_cluster_a_namespace_of_the_file_is_made_on_the_bus_that_is_named(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    answers(kubectl)
    plan = str(CORPUS / "terraform-module-plan.json")

    code = command.main(["--bus", "shop", "apply", "--from", plan, "--wait", "0"])

    said = capsys.readouterr().err
    assert code == 0
    assert "what is in shop-bus is made on bus shop." in said
    assert "its policies are left out. Add them to the manifest of bus shop" in said


@pytest.mark.requirement("R662")
def test_on_a_cluster_a_file_without_a_namespace_needs_to_know_its_bus(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    names = ({"metadata": {"name": each, "namespace": "apps"}} for each in ("a", "b"))
    kubectl.answers(get_busnamespaces={"out": json.dumps({"items": list(names)})})

    code = command.main(["--kube", "apply", "--from", str(CORPUS / "aso-queue.yaml")])

    assert code == 1
    assert "a, b. Choose one with --bus NAME." in capsys.readouterr().err
    assert [each["arguments"][0] for each in kubectl.calls()] == ["get"]
