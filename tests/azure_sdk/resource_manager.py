"""Replaces `azure.mgmt.servicebus` and `azure.mgmt.resource`: creates entities of the live bus."""

import contextlib
from collections.abc import Iterable
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from tests.azure_sdk import live_bus
from tests.azure_sdk.devtools import FakeResource
from tests.integration.secured import ROOT_KEY, ROOT_POLICY


class AccessRights(StrEnum):
    """What a policy may allow."""

    manage = "Manage"
    send = "Send"
    listen = "Listen"


class Properties:
    """What an entity, or a policy, is to be like: whatever was given."""

    def __init__(self, **given: Any) -> None:
        self.given = {name: value for name, value in given.items() if value is not None}


class ResourceManagementClient:
    """Makes resource groups, of which a bus has none."""

    def __init__(self) -> None:
        self.resource_groups = self

    def create_or_update(self, name: str, properties: Any) -> FakeResource:
        """Return a group with that name."""
        return FakeResource(name)

    def begin_delete(self, name: str, **given: Any) -> Any:
        """Delete it."""
        return SimpleNamespace(result=lambda: None)


class ServiceBusManagementClient:
    """Makes entities and policies."""

    def __init__(self) -> None:
        self.namespaces = _Namespaces()
        self.queues = _Queues()
        self.topics = _Topics()
        self.subscriptions = _Subscriptions()


class _Namespaces:
    def begin_create_or_update(self, group: str, name: str, properties: Any) -> Any:
        known = live_bus.facts().namespace
        return SimpleNamespace(result=lambda: FakeResource(known))

    def delete(self, group: str, name: str) -> None:
        """Leave it: there is one."""

    def list_keys(self, group: str, namespace: str, rule: str) -> Any:
        return _keys(rule, ROOT_KEY if rule == ROOT_POLICY else rule)

    def create_or_update_authorization_rule(
        self, group: str, namespace: str, name: str, rule: Properties
    ) -> FakeResource:
        live_bus.facts().add_policy(name, _rights(rule))
        return FakeResource(name)

    def delete_authorization_rule(self, group: str, namespace: str, name: str) -> None:
        """Leave it: it ends with the bus."""


class _Queues:
    def create_or_update(
        self, group: str, namespace: str, name: str, properties: Properties
    ) -> FakeResource:
        with live_bus.facts().administration() as administration:
            administration.create_queue(name, **properties.given)
        return FakeResource(name)

    def delete(self, group: str, namespace: str, name: str) -> None:
        with (
            live_bus.facts().administration() as administration,
            contextlib.suppress(ResourceNotFoundError),
        ):
            administration.delete_queue(name)

    def create_or_update_authorization_rule(
        self, group: str, namespace: str, queue: str, name: str, rule: Properties
    ) -> FakeResource:
        live_bus.facts().add_policy(name, _rights(rule), queue)
        return FakeResource(name)

    def list_keys(self, group: str, namespace: str, queue: str, rule: str) -> Any:
        return _keys(rule, rule, queue)

    def delete_authorization_rule(self, group: str, namespace: str, queue: str, name: str) -> None:
        """Leave it: it ends with the bus."""


class _Topics:
    def create_or_update(
        self, group: str, namespace: str, name: str, properties: Any
    ) -> FakeResource:
        with live_bus.facts().administration() as administration:
            administration.create_topic(name)
        return FakeResource(name)

    def delete(self, group: str, namespace: str, name: str) -> None:
        with (
            live_bus.facts().administration() as administration,
            contextlib.suppress(ResourceNotFoundError),
        ):
            administration.delete_topic(name)


class _Subscriptions:
    def create_or_update(
        self, group: str, namespace: str, topic: str, name: str, properties: Properties
    ) -> FakeResource:
        with live_bus.facts().administration() as administration:
            administration.create_subscription(topic, name, **properties.given)
        return FakeResource(name)

    def delete(self, group: str, namespace: str, topic: str, name: str) -> None:
        """Leave it: it goes with its topic."""


def _rights(rule: Properties) -> list[str]:
    rights: Iterable[AccessRights] = rule.given["rights"]
    return [right.value for right in rights]


def _keys(name: str, key: str, entity: str = "") -> Any:
    path = f";EntityPath={entity}" if entity else ""
    return SimpleNamespace(
        primary_connection_string=live_bus.facts().connection_string(name, key) + path,
        key_name=name,
        primary_key=key,
    )
