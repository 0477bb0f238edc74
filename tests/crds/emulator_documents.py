"""Texts of Config.json, what becomes of them, and why they are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from bendybus.crds import emulator_config
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError

EXAMPLE = Path(__file__).parents[2] / "examples" / "emulator" / "Config.json"
QUEUE = "UserConfig.Namespaces[0].Queues[0]"
RULE = "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0]"


def document(
    *, queues: list[Any] | None = None, topics: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    namespace = {"Name": "sbemulatorns", "Queues": queues or [], "Topics": topics or []}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}, **more}}


def queue(name: str = "orders", **properties: Any) -> dict[str, Any]:
    return {"Name": name, "Properties": properties}


def topic_with(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"Name": "t", "Subscriptions": [{"Name": "s", "Rules": list(rules)}]}


def rule(**properties: Any) -> dict[str, Any]:
    return {"Name": "r", "Properties": properties}


def convert(**parts: Any) -> Conversion:
    return emulator_config.convert("Config.json", document(**parts))


def found(conversion: Conversion) -> dict[str, tuple[str, str]]:
    return {each.path: (each.outcome.value, each.detail) for each in conversion.findings}


def refused(text: bytes | Any) -> list[str]:
    data = text if isinstance(text, bytes) else json.dumps(text).encode()
    with pytest.raises(ManifestError) as caught:
        emulator_config.parse("Config.json", data)
    return [str(each).removeprefix("Config.json: ") for each in caught.value.problems]
