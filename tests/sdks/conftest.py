"""One bus of each tier for the tests of the SDK for .NET, and the program on it."""

from collections.abc import Iterator

import pytest

from bendybus.domain.limits import Tier
from tests.sdks import dotnet_driver
from tests.sdks.dotnet_bus import DotnetBus


def needs_tools() -> None:
    """Skip a test where the tools for .NET are missing."""
    if not (dotnet_driver.tools() / "driver").exists():
        pytest.skip("NOT RUN: the tools for .NET are missing; see CONTRIBUTING.md, BENDYBUS_DOTNET")


@pytest.fixture(scope="session")
def dotnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DotnetBus]:
    """Return a Standard bus with a program on the SDK for .NET."""
    needs_tools()
    bus = DotnetBus(tmp_path_factory.mktemp("dotnet"))
    yield bus
    bus.end()


@pytest.fixture(scope="session")
def dotnet_premium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DotnetBus]:
    """Return a Premium bus of one partition with a program on the SDK for .NET."""
    needs_tools()
    bus = DotnetBus(tmp_path_factory.mktemp("premium"), tier=Tier.PREMIUM, partitions=1)
    yield bus
    bus.end()
