"""A cluster in memory for every test that wants one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.operator.cluster import Cluster


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    await made.end()
