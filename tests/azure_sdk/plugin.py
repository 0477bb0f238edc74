"""A pytest plugin that installs the shims under the names that azure-servicebus's tests import.

Loaded with `-p tests.azure_sdk.plugin` by `python -m tests.azure_sdk`, in each test process.
"""

import functools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import azure.core.exceptions
import pytest
from azure.servicebus import ServiceBusReceiver
from azure.servicebus._pyamqp.aio import AMQPClientAsync, ReceiveClientAsync
from azure.servicebus._pyamqp.client import AMQPClient, ReceiveClient
from azure.servicebus.aio import ServiceBusReceiver as AsyncServiceBusReceiver

from tests.azure_sdk import devtools, live_bus, resource_manager, substitutions

# The environment variable with the path of the file of results.
RESULTS: Final = "BENDYBUS_AZURE_SDK_RESULTS"
# The longest ones sleep for five minutes.
DEADLINE_S: Final = 480
CHANGED: Final[tuple[type, ...]] = (
    AMQPClient,
    AMQPClientAsync,
    ReceiveClient,
    ReceiveClientAsync,
    ServiceBusReceiver,
    AsyncServiceBusReceiver,
)


class Overdue(BaseException):
    """Raised in a test that takes too long; no test catches it."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Install the shims, before a conftest or a test is imported."""
    # For names of hosts that are made at import.
    os.environ["SERVICEBUS_ENDPOINT_SUFFIX"] = live_bus.facts().suffix
    substitutions.trust_the_bus()
    ignored, preparer = devtools.ignored, functools.partial(devtools.ResourceGroupPreparer)
    substitutions.module(
        "devtools_testutils",
        AzureMgmtPreparer=devtools.AzureMgmtPreparer,
        AzureMgmtRecordedTestCase=devtools.AzureMgmtRecordedTestCase,
        AzureRecordedTestCase=devtools.AzureMgmtRecordedTestCase,
        AzureTestError=devtools.AzureTestError,
        CachedResourceGroupPreparer=preparer,
        FakeResource=devtools.FakeResource,
        PowerShellPreparer=devtools.PowerShellPreparer,
        RandomNameResourceGroupPreparer=preparer,
        ReservedResourceNameError=devtools.ReservedResourceNameError,
        add_general_regex_sanitizer=ignored,
        get_credential=devtools.get_credential,
        get_region_override=devtools.get_region_override,
        recorded_by_proxy=lambda test: test,
        set_custom_default_matcher=ignored,
    )
    substitutions.module("devtools_testutils.aio", recorded_by_proxy_async=lambda test: test)
    substitutions.module(
        "devtools_testutils.resource_testcase", RESOURCE_GROUP_PARAM="resource_group"
    )
    substitutions.module(
        "devtools_testutils.sanitizers",
        add_general_regex_sanitizer=ignored,
        add_oauth_response_sanitizer=ignored,
        add_remove_header_sanitizer=ignored,
    )
    error = azure.core.exceptions.AzureError
    substitutions.module("azure.common", AzureHttpError=error, AzureConflictHttpError=error)
    substitutions.module("azure.mgmt")
    substitutions.module(
        "azure.mgmt.resource", ResourceManagementClient=resource_manager.ResourceManagementClient
    )
    substitutions.module(
        "azure.mgmt.servicebus",
        ServiceBusManagementClient=resource_manager.ServiceBusManagementClient,
    )
    substitutions.module(
        "azure.mgmt.servicebus.models",
        AccessRights=resource_manager.AccessRights,
        SBAuthorizationRule=resource_manager.Properties,
        SBQueue=resource_manager.Properties,
        SBSubscription=resource_manager.Properties,
    )


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """Stand for the program that records."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a test that takes too long."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Overdue(f"not done within {DEADLINE_S} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(DEADLINE_S)
    # Some replace methods of the SDK, and leave that to the tests after them.
    methods = [(kind, dict(vars(kind))) for kind in CHANGED]
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        for kind, names in methods:
            _restore(kind, names)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write what became of a test."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    said = report.longrepr
    why = str(said[2] if isinstance(said, tuple) else getattr(said, "reprcrash", None) or said)
    _write(
        {
            "test": report.nodeid,
            "outcome": report.outcome,
            "why": "" if report.passed else why.splitlines()[0] if why else "",
            "took_s": round(report.duration, 1),
        }
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write that a file cannot be collected: that is a test that fails."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        _write({"test": report.nodeid, "outcome": "failed", "why": "it cannot be collected"})


def _write(result: dict[str, Any]) -> None:
    with Path(os.environ[RESULTS]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def _restore(kind: type, names: dict[str, Any]) -> None:
    for name, value in list(vars(kind).items()):
        if name not in names:
            delattr(kind, name)
        elif names[name] is not value:
            setattr(kind, name, names[name])
