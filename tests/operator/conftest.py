"""A cluster in memory for every test that wants one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bendybus.operator.controllers import bus_controller
from tests.operator.cluster import Cluster


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    # How long a status waits for the first answers of partitions that tests leave down.
    monkeypatch.setattr(bus_controller, "GRACE_S", 2.0)
    made = Cluster(tmp_path)
    yield made
    await made.end()
