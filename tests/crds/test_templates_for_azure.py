"""Templates that are written have only what the models of azure-mgmt-servicebus can set."""

import datetime
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from azure.mgmt.servicebus import models
from azure.mgmt.servicebus.models import _models
from hypothesis import assume, given, settings

from bendybus.crds.conversion import Document
from bendybus.crds.errors import ManifestError
from bendybus.crds.exports import arm, writing
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from tests.crds.generated_buses import buses

pytestmark = pytest.mark.requirement("R661")
TYPE = "Microsoft.ServiceBus/namespaces"
MODELS: Mapping[str, Any] = {
    TYPE: models.SBNamespace,
    f"{TYPE}/queues": models.SBQueue,
    f"{TYPE}/topics": models.SBTopic,
    f"{TYPE}/topics/subscriptions": models.SBSubscription,
    f"{TYPE}/topics/subscriptions/rules": models.Rule,
    f"{TYPE}/authorizationRules": models.SBAuthorizationRule,
    f"{TYPE}/queues/authorizationRules": models.SBAuthorizationRule,
    f"{TYPE}/topics/authorizationRules": models.SBAuthorizationRule,
}
# Fields of a template that are not in the request of Azure.
OF_TEMPLATES = {"type", "apiVersion", "name", "dependsOn"}


def wrong(model: Any, value: Any, path: str) -> list[str]:
    """Return the fields of a value that a model has not, cannot set, or has of another type."""
    if isinstance(model, type) and issubclass(model, Enum):
        return [] if value in {each.value for each in model} else [f"{path}: {value!r}"]
    if isinstance(model, type) and hasattr(model, "as_dict"):
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        # The table of a model's fields is made with its first instance.
        fields = {each._rest_name: (name, each) for name, each in _fields(model).items()}
        hints = typing.get_type_hints(model, {**vars(_models), "_models": models})
        found = []
        for name, each in value.items():
            if name not in fields or fields[name][1]._visibility == ["read"]:
                found.append(f"{path}.{name}")
            else:
                found += wrong(hints[fields[name][0]], each, f"{path}.{name}")
        return found
    return _wrong_plain(model, value, path)


def _fields(model: Any) -> dict[str, Any]:
    model({})
    return dict(model._attr_to_rest_field)


def _wrong_plain(model: Any, value: Any, path: str) -> list[str]:
    origin, arguments = typing.get_origin(model), typing.get_args(model)
    if origin is list and isinstance(value, list):
        return [one for each in value for one in wrong(arguments[0], each, f"{path}[]")]
    if origin is dict and isinstance(value, dict):
        return [one for each in value.values() for one in wrong(arguments[1], each, f"{path}.*")]
    if arguments and origin not in (list, dict):
        # Models take any text where an enumeration is meant, for those of later versions.
        meant = [each for each in arguments if isinstance(each, type) and issubclass(each, Enum)]
        wanted = meant or [each for each in arguments if each is not type(None)]
        options = [wrong(each, value, path) for each in wanted]
        return [] if [] in options else min(options, key=len)
    plain = str if model is datetime.timedelta else model
    return [] if type(value) is plain else [f"{path}: {value!r} is no {plain.__name__}"]


@settings(max_examples=100, deadline=None)
@given(documents=buses())
def test_a_template_has_only_what_the_models_have(documents: list[Document]) -> None:
    try:
        reading.of_manifests("bus.yaml", [("", each) for each in documents])
    except ManifestError:
        assume(False)

    [template] = writing.write("bus.yaml", documents, Form.ARM, {}).documents

    for each in template["resources"]:
        own = {name: value for name, value in each.items() if name not in OF_TEMPLATES}
        assert wrong(MODELS[each["type"]], own, each["type"]) == []
        assert each["apiVersion"] == arm.API_VERSION


def test_the_comparison_finds_what_is_wrong() -> None:
    queue = {"lockDuration": "PT1M", "maxDeliveryCount": "10", "noSuch": 1, "messageCount": 3,
             "status": "Asleep", "requiresSession": "false"}  # fmt: skip

    assert wrong(models.SBQueueProperties, queue, "") == [
        ".maxDeliveryCount: '10' is no int",
        ".noSuch",
        ".messageCount",
        ".status: 'Asleep'",
        ".requiresSession: 'false' is no bool",
    ]
