"""examples/emulator/compose.yaml: its fields, and its service as a process with the same command,
variables and file.
"""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from azure.servicebus import ServiceBusMessage

from bendybus.cli.bus import emulator_configs
from tests.crds.emulator_documents import EXAMPLE
from tests.integration.emulators import Emulator
from tests.test_tidy import ROOT

COMPOSE = EXAMPLE.with_name("compose.yaml")
# Of the fields that the file uses, what the Compose Specification takes.
SERVICE = {
    "image": str,
    "command": list,
    "environment": dict,
    "volumes": list,
    "ports": list,
    "healthcheck": dict,
    "stop_grace_period": str,
}
HEALTHCHECK = {"test": list, "interval": str, "timeout": str, "retries": int}
DURATION = re.compile(r"\d+(us|ms|s|m|h)")
PORT = re.compile(r"127\.0\.0\.1:(\d+):(\d+)")


@pytest.fixture
def service() -> dict[str, Any]:
    document = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert set(document) == {"name", "services", "volumes"}
    assert list(document["services"]) == ["emulator"]
    found: dict[str, Any] = document["services"]["emulator"]
    return found


@pytest.mark.requirement("R507")
def test_it_uses_fields_of_the_specification_with_their_types(service: dict[str, Any]) -> None:
    check = service["healthcheck"]

    assert {name: type(value) for name, value in service.items()} == SERVICE
    assert {name: type(value) for name, value in check.items()} == HEALTHCHECK
    assert check["test"][0] == "CMD"
    assert all(isinstance(each, str) for each in service["environment"].values())
    durations = (service["stop_grace_period"], check["interval"], check["timeout"])
    assert all(DURATION.fullmatch(each) for each in durations)


@pytest.mark.requirement("R507")
def test_only_this_machine_has_access_to_its_ports(service: dict[str, Any]) -> None:
    ports = [PORT.fullmatch(each) for each in service["ports"]]

    found = [each.groups() for each in ports if each]
    assert found == [("5672", "5672"), ("5300", "5300")]
    assert service["environment"]["EMULATOR_HTTP_PORT"] == "5300"


def test_its_files_are_those_of_the_image(service: dict[str, Any]) -> None:
    config, data = (each.split(":") for each in service["volumes"])

    dockerfile = (ROOT / "images" / "bendybus" / "Dockerfile").read_text(encoding="utf-8")
    build = (ROOT / "images" / "build").read_text(encoding="utf-8")
    assert (COMPOSE.parent / config[0]).resolve() == EXAMPLE
    assert config[1:] == [str(emulator_configs.CONTAINER_PATH), "ro"]
    assert data[1] == "/home/app"
    # With Docker or without, the image is the same.
    assert 'CMD ["bendybus", "emulator"]' in dockerfile
    assert """--cmd '["bendybus", "emulator"]'""" in build
    assert "XDG_DATA_HOME=/home/app" in dockerfile
    assert "XDG_DATA_HOME=/home/app" in build


@pytest.mark.requirement("R507")
def test_its_service_serves_the_entities_of_its_config(
    service: dict[str, Any], tmp_path: Path
) -> None:
    program, *words = service["command"]
    assert program == "bendybus"
    environment = {**service["environment"]}
    # Those of the host, where the ports of the container may be taken.
    del environment["EMULATOR_HTTP_PORT"]
    emulator = Emulator(
        tmp_path,
        command=(sys.executable, "-m", "bendybus.cli", *words),
        environment=environment,
        options=("--config", str(EXAMPLE)),
    )
    try:
        emulator.wait_ready()
        with emulator.sdk() as client:
            with client.get_topic_sender("shipments") as sender:
                for body, weight in (("light", 3), ("heavy", 30)):
                    properties: Any = {"carrier": "air", "weight": weight}
                    sender.send_messages(ServiceBusMessage(body, application_properties=properties))
            with client.get_subscription_receiver("shipments", "express") as receiver:
                [message] = receiver.receive_messages(2, max_wait_time=5)
                receiver.complete_message(message)
        code = emulator.stop()
    finally:
        emulator.kill()

    assert str(message) == "light"
    assert (message.application_properties or {})[b"priority"] == b"high"
    assert code == 0
