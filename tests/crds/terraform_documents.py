"""Small files of Terraform, for tests of their reader."""

import json
from typing import Any

from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked

IDS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces"
PREFIX = "azurerm_servicebus_"


def resource(kind: str, label: str, index: Any = None, **values: Any) -> dict[str, Any]:
    """Return a resource of a plan or a shown state; `kind`: without the provider's prefix."""
    made = {"mode": "managed", "type": PREFIX + kind, "name": label, "values": values}
    return made if index is None else {**made, "index": index}


def data(kind: str, label: str, **values: Any) -> dict[str, Any]:
    """Return a data source."""
    return resource(kind, label, **values) | {"mode": "data"}


def module(address: str, *resources: Any, modules: Any = ()) -> dict[str, Any]:
    """Return a module with resources."""
    found: dict[str, Any] = {"resources": list(resources), "child_modules": list(modules)}
    return {**found, "address": address} if address else found


def references(**arguments: Any) -> dict[str, Any]:
    """Return expressions with what each refers to."""
    return {name: {"references": list(to)} for name, to in arguments.items()}


def written(kind: str, label: str, **arguments: Any) -> dict[str, Any]:
    """Return a resource of a plan's configuration, with what its arguments refer to."""
    return {
        "mode": "managed",
        "type": PREFIX + kind,
        "name": label,
        "expressions": references(**arguments),
    }


def plan(*resources: Any, modules: Any = (), root: Any = None, **parts: Any) -> dict[str, Any]:
    """Return a plan. `root`: the root module of its configuration."""
    planned = {"root_module": module("", *resources, modules=modules)}
    made = {"format_version": "1.2", "terraform_version": "1.9.0", "planned_values": planned}
    return made | ({"configuration": {"root_module": root}} if root is not None else {}) | parts


def shown_state(*resources: Any, modules: Any = ()) -> dict[str, Any]:
    """Return a state as `terraform show -json` prints it."""
    values = {"root_module": module("", *resources, modules=modules)}
    return {"format_version": "1.0", "terraform_version": "1.9.0", "values": values}


def raw_state(*resources: Any) -> dict[str, Any]:
    """Return a state as its file has it; of each resource `values` are the only instance's."""
    entries = [
        {
            **{name: value for name, value in each.items() if name not in ("values", "index")},
            "instances": [
                {"attributes": each["values"]}
                | ({"index_key": each["index"]} if "index" in each else {})
            ],
        }
        for each in resources
    ]
    return {"version": 4, "terraform_version": "1.9.0", "serial": 1, "resources": entries}


def configuration(**blocks: Any) -> dict[str, Any]:
    """Return configuration in JSON; of each kind, blocks by their names."""
    return {"resource": {PREFIX + kind: named for kind, named in blocks.items()}}


def converted(document: Any, asked: Asked | None = None) -> Conversion:
    """Return the conversion of a file, whose form is recognised."""
    found = reading.documents("bus.json", json.dumps(document).encode())
    assert reading.recognised("bus.json", found) is Form.TERRAFORM
    return reading.convert("bus.json", Form.TERRAFORM, found, asked or Asked())


def specs(document: Any, asked: Asked | None = None) -> dict[str, dict[str, Any]]:
    """Return each manifest's spec by kind and name."""
    return {
        f"{each['kind']} {each['metadata']['name']}": {
            name: value for name, value in each["spec"].items() if name != "namespaceRef"
        }
        for each in converted(document, asked).documents
    }


def problems(document: Any, asked: Asked | None = None) -> list[str]:
    """Return the problems of a file."""
    try:
        converted(document, asked)
    except ManifestError as error:
        return [str(each).removeprefix("bus.json: ") for each in error.problems]
    raise AssertionError("nothing is wrong with it")
