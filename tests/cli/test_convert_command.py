"""`bendybus convert`: manifests on stdout, the report on stderr."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bendybus.cli import __main__ as command
from tests.crds.emulator_documents import EXAMPLE

Capture = pytest.CaptureFixture[str]


@pytest.mark.requirement("R500")
def test_manifests_go_to_stdout_and_the_report_to_stderr(capsys: Capture) -> None:
    code = command.main(["convert", str(EXAMPLE), "--premium", "4"])

    said = capsys.readouterr()
    documents = list(yaml.safe_load_all(said.out))
    assert code == 0
    assert [each["kind"] for each in documents[:3]] == ["BusNamespace", "Queue", "Queue"]
    assert documents[0]["spec"]["premiumMessagingPartitions"] == 4
    assert said.err.startswith(f"{EXAMPLE}: 24 fields: 23 taken, 0 changed, 0 not supported, ")
    assert "without effect: UserConfig.Logging: logs are files " in said.err


@pytest.mark.requirement("R500")
def test_the_report_has_a_line_of_json_for_every_field(capsys: Capture, tmp_path: Path) -> None:
    code = command.main(["convert", str(EXAMPLE), "--report", "json", "--to", str(tmp_path / "y")])

    said = capsys.readouterr()
    findings = [json.loads(line) for line in said.err.splitlines()]
    assert code == 0
    assert said.out == ""
    assert len(list(yaml.safe_load_all((tmp_path / "y").read_text(encoding="utf-8")))) == 7
    assert findings[0] == {
        "path": "UserConfig.Logging",
        "outcome": "without effect",
        "detail": "logs are files in the data folder; bendybus logs shows them.",
    }


@pytest.mark.requirement("R500")
def test_a_file_is_read_from_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"UserConfig": {}}')))

    code = command.main(["convert", "-"])

    assert code == 1
    said = capsys.readouterr().err
    assert said == "bendybus: stdin: UserConfig.Namespaces: is missing. It is required.\n"


@pytest.mark.requirement("R501")
def test_a_folder_in_place_of_a_mounted_file_is_explained(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCEPT_EULA", "Y")
    arguments = ["emulator", "--config", str(tmp_path), "--data", str(tmp_path / "data")]

    assert command.main(arguments) == 1

    assert f"{tmp_path} is a folder. A container engine makes one where the file to mount" in (
        capsys.readouterr().err
    )


@pytest.mark.requirement("R501")
def test_a_file_that_cannot_be_read_is_one_sentence(capsys: Capture, tmp_path: Path) -> None:
    codes = [command.main(["convert", str(each)]) for each in (tmp_path, tmp_path / "x.json")]

    folder, missing = capsys.readouterr().err.splitlines()
    assert codes == [1, 1]
    assert folder == f"bendybus: {tmp_path} is a folder. Name a file in it."
    assert missing == (
        f"bendybus: {tmp_path}/x.json: no such file or directory. Check the path of the file to "
        "convert."
    )


@pytest.mark.requirement("R501")
def test_a_file_of_another_user_is_one_sentence(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refused(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "Config.json":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refused)

    code = command.main(["convert", "Config.json"])

    assert code == 1
    assert capsys.readouterr().err == (
        "bendybus: Config.json: permission denied. Make the file readable for all: chmod a+r.\n"
    )


@pytest.mark.requirement("R500")
def test_the_file_itself_is_not_overwritten(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "Config.json"
    config.write_bytes(EXAMPLE.read_bytes())
    (tmp_path / "bus.yaml").symlink_to(config)

    codes = [
        command.main(["convert", str(config), "--to", str(tmp_path / name)])
        for name in ("Config.json", "bus.yaml")
    ]

    assert codes == [2, 2]
    assert "is the file to convert. Choose another." in capsys.readouterr().err
    assert config.read_bytes() == EXAMPLE.read_bytes()


TEMPLATE = {
    "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {"name": {"type": "string"}, "count": {"type": "int", "defaultValue": 3}},
    "resources": [
        {
            "type": "Microsoft.ServiceBus/namespaces",
            "name": "[parameters('name')]",
            "location": "[resourceGroup().location]",
            "sku": {"name": "Standard"},
        },
        {
            "type": "Microsoft.ServiceBus/namespaces/queues",
            "name": "[concat(parameters('name'), '/orders')]",
            "properties": {"maxDeliveryCount": "[parameters('count')]"},
        },
    ],
}


@pytest.fixture
def template(tmp_path: Path) -> Path:
    file = tmp_path / "bus.json"
    file.write_text(json.dumps(TEMPLATE), encoding="utf-8")
    return file


@pytest.mark.requirement("R655")
def test_a_template_is_recognised_and_its_values_are_given(
    capsys: Capture, template: Path, tmp_path: Path
) -> None:
    parameters = tmp_path / "parameters.json"
    parameters.write_text('{"parameters": {"name": {"value": "x"}, "count": {"value": 7}}}')
    arguments = ["convert", str(template), "--parameters", str(parameters), "--set", "name=shop"]

    code = command.main(arguments)

    said = capsys.readouterr()
    bus, queue = yaml.safe_load_all(said.out)
    assert code == 0
    assert (bus["metadata"]["name"], queue["spec"]["maxDeliveryCount"]) == ("shop", 7)
    assert "without effect: resources[0].location: a bus runs where " in said.err


@pytest.mark.requirement("R655")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 1, "resources[0].name: needs name, which the file lacks: give it with --set"),
        (["--set", "name"], 2, "--set: must be NAME=VALUE (got 'name')."),
        (["--set", "name=shop", "--premium", "4"], 1, "Leave --premium out"),
        (["--form", "emulator"], 1, "UserConfig: is missing"),
        (["--parameters", str(EXAMPLE)], 1, "is no file of parameters"),
    ],
)
def test_what_is_wrong_with_a_template_is_said_and_nothing_is_written(
    capsys: Capture, template: Path, arguments: list[str], code: int, words: str
) -> None:
    found = command.main(["convert", str(template), *arguments])

    said = capsys.readouterr()
    assert (found, said.out) == (code, "")
    assert words in said.err


@pytest.mark.requirement("R664")
def test_strict_takes_a_file_that_loses_nothing(capsys: Capture, template: Path) -> None:
    code = command.main(["convert", str(template), "--set", "name=shop", "--strict"])

    said = capsys.readouterr()
    assert (code, said.out.count("kind: ")) == (0, 2)
    assert "without effect: resources[0].location: " in said.err


@pytest.mark.requirement("R664")
@pytest.mark.parametrize("form", [[], ["--report", "json"], ["-o", "json"]])
def test_strict_says_the_report_in_the_form_that_is_asked_for(
    capsys: Capture, template: Path, tmp_path: Path, form: list[str]
) -> None:
    template.write_text(template.read_text().replace('"location"', '"locked"'))
    to = tmp_path / "bus.yaml"
    arguments = ["convert", str(template), "--set", "name=shop", "--strict", "--to", str(to)]

    code = command.main([*arguments, *form])

    said = capsys.readouterr()
    assert (code, to.exists()) == (1, False)
    assert "--strict: 1 field was changed or is not supported. Nothing is written." in said.err
    if form == ["-o", "json"]:
        found = json.loads(said.out)
        lost = [each["path"] for each in found["report"] if each["outcome"] == "not supported"]
        assert (lost, found["documents"]) == (["resources[0].locked"], [])
    elif form:
        lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
        assert "resources[0].locked" in {each["path"] for each in lines}
    else:
        assert "not supported: resources[0].locked: is not a known field" in said.err


@pytest.mark.requirement("R655")
def test_values_are_for_templates(capsys: Capture) -> None:
    assert command.main(["convert", str(EXAMPLE), "--set", "a=b"]) == 2
    assert "--set and --parameters are for templates" in capsys.readouterr().err


@pytest.mark.requirement("R656")
def test_what_az_prints_is_read_from_a_pipe(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/shop"
    printed = json.dumps([{"id": f"{path}/queues/orders", "maxDeliveryCount": 4}]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed)))

    assert command.main(["convert", "-", "--set", "a=b"]) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed)))
    assert command.main(["convert", "-"]) == 0

    said = capsys.readouterr()
    bus, queue = yaml.safe_load_all(said.out)
    assert (bus["metadata"]["name"], queue["spec"]["maxDeliveryCount"]) == ("shop", 4)
    assert "this file is none" in said.err
