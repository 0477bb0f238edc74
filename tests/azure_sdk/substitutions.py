"""Substitutions in a process that runs unmodified tests or samples of azure-servicebus."""

import functools
import sys
from types import ModuleType
from typing import Any

import certifi

from tests.azure_sdk import live_bus
from tests.azure_sdk.credentials import AsyncCredential, Credential


def trust_the_bus() -> None:
    """Have the SDK trust the authority of the bus, beside those that certifi lists."""
    certifi.where = lambda: live_bus.facts().trusted


def stand_for_identity() -> None:
    """Put a stub where azure.identity is looked for: its tokens are good on the bus."""
    sign = live_bus.facts().token
    for name, kind in (("azure.identity", Credential), ("azure.identity.aio", AsyncCredential)):
        made = functools.partial(kind, sign)
        module(name, DefaultAzureCredential=made, EnvironmentCredential=made)


def module(name: str, **names: Any) -> None:
    """Make a module with these names."""
    made = ModuleType(name)
    made.__dict__.update(names)
    # Packages, all of them: what lies in them is found in the same table.
    made.__path__ = []
    sys.modules[name] = made
