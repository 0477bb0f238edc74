"""Replaces `devtools_testutils`: creates the resources that decorators of tests ask for."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from tests.azure_sdk import live_bus
from tests.azure_sdk.credentials import AsyncCredential, Credential
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

RESOURCE_GROUP_PARAM: Final = "resource_group"
Resources = dict[str, Any]


class FakeResource:
    """A resource that has a name and no more."""

    def __init__(self, name: str, **given: str) -> None:
        self.name = name


class AzureTestError(Exception):
    """Raised when a resource cannot be made."""


class ReservedResourceNameError(Exception):
    """Raised when a name may not be used."""


class AzureMgmtRecordedTestCase:
    """The base of test classes: here, nothing is recorded."""

    @staticmethod
    def await_prepared_test(test: Callable[..., Any]) -> Callable[..., Any]:
        """Return a test that runs a coroutine to its end."""

        @functools.wraps(test)
        def run(test_class: Any, **given: Any) -> Any:
            return asyncio.run(test(test_class, **given))

        return run


class AzureMgmtPreparer:
    """A decorator that makes a resource for a test, and hands it over by keyword."""

    # (class, settings, what it lies in) -> what a test gets of it.
    _kept: Final[dict[tuple[Any, ...], Resources]] = {}

    def __init__(self, name_prefix: str = "", random_name_length: int = 24, **given: Any) -> None:
        self.name_prefix = name_prefix
        self.random_name_enabled = given.get("random_name_enabled", False)
        self.is_live = True
        self.resource: Any = None
        self.client: Any = None
        self.test_class_instance: Any = None
        self.moniker = self.resource_moniker = name_prefix
        self._cached = False
        self._settings: tuple[Any, ...] = ()

    def set_cache(self, enabled: bool, *settings: Any) -> None:
        """Keep the resource for all tests that want one with these settings."""
        self._cached, self._settings = enabled, settings

    def create_mgmt_client(self, kind: Callable[[], Any], **given: Any) -> Any:
        """Return a client that makes resources."""
        return kind()

    def create_resource(self, name: str, **given: Any) -> Resources:
        """Make it; return what a test gets."""
        raise NotImplementedError

    def remove_resource(self, name: str, **given: Any) -> None:
        """Remove it."""

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Return a test that first makes the resource."""

        @functools.wraps(test)
        def run(test_class: Any, **given: Any) -> Any:
            name, made = self._made(test_class, given)
            try:
                return test(test_class, **{**given, **made})
            finally:
                self._remove(name, given)

        @functools.wraps(test)
        async def run_async(test_class: Any, **given: Any) -> Any:
            name, made = await asyncio.to_thread(self._made, test_class, given)
            try:
                return await test(test_class, **{**given, **made})
            finally:
                await asyncio.to_thread(self._remove, name, given)

        return run_async if asyncio.iscoroutinefunction(test) else run

    def _made(self, test_class: Any, given: Resources) -> tuple[str, Resources]:
        self.test_class_instance = test_class
        within = [getattr(each, "name", "") for each in given.values()]
        key = (type(self), self.name_prefix, repr(self._settings), *within)
        if self._cached and key in self._kept:
            return "", self._kept[key]
        name = live_bus.name_with(self.name_prefix)
        made = self.create_resource(name, **given)
        if self._cached:
            self._kept[key] = made
        return name, made

    def _remove(self, name: str, given: Resources) -> None:
        if name and not self._cached:
            self.remove_resource(name, **given)


class ResourceGroupPreparer(AzureMgmtPreparer):
    """Makes a resource group, of which a bus has none."""

    def create_resource(self, name: str, **given: Any) -> Resources:
        """Return a group with that name."""
        return {RESOURCE_GROUP_PARAM: FakeResource(name), "location": ""}


class PowerShellPreparer:
    """A decorator that hands a test what the environment says of a namespace, by keyword."""

    def __init__(self, directory: str = "", **examples: str) -> None:
        self._names = [*examples]

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Return a test that gets it."""

        @functools.wraps(test)
        def run(test_class: Any) -> Any:
            return test(test_class, **self._variables(test))

        @functools.wraps(test)
        async def run_async(test_class: Any) -> Any:
            return await test(test_class, **self._variables(test))

        made: Any = run_async if asyncio.iscoroutinefunction(test) else run
        # For pytest, which would look for fixtures with the names of its parameters.
        made.__signature__ = inspect.Signature(
            [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        )
        return made

    def _variables(self, test: Callable[..., Any]) -> Resources:
        facts = live_bus.facts()
        known = {
            "servicebus_connection_str": facts.connection_string(),
            "servicebus_fully_qualified_namespace": facts.address,
            "servicebus_sas_policy": ROOT_POLICY,
            "servicebus_sas_key": ROOT_KEY,
        }
        asked = inspect.signature(test).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in asked.values())
        names = (name for name in self._names if takes_all or name in asked)
        return {name: known.get(name, name) for name in names}


def get_region_override(default: str = "") -> str:
    """Return the region of resources."""
    return default


def ignored(*_: Any, **__: Any) -> None:
    """Do nothing: settings of recordings."""


def get_credential(is_async: bool = False, **given: Any) -> Any:
    """Return a credential that may do everything."""
    return (AsyncCredential if is_async else Credential)(live_bus.facts().token)
