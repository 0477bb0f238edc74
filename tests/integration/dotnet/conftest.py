"""A bus, and a connected peer."""

from collections.abc import Iterator

import pytest

from tests.integration.dotnet.bus import connected, created
from tests.integration.dotnet.client import DotnetPeer
from tests.integration.guarded import Guarded


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A bus with policies."""
    made = Guarded(tmp_path_factory.mktemp("dotnet"))
    yield made
    made.end()


@pytest.fixture
def queue(guarded: Guarded) -> str:
    """A queue."""
    return created(guarded)


@pytest.fixture
def sessions(guarded: Guarded) -> str:
    """A queue with sessions."""
    return created(guarded, requires_session=True)


@pytest.fixture
def peer(guarded: Guarded) -> Iterator[DotnetPeer]:
    """A client of .NET with all rights."""
    with connected(guarded) as made:
        yield made
