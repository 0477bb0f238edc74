"""One Spark session for all tests of a process, and a bus for those that do not break it."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import Bus
from tests.spark.live.queues import Queue

_names = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an integration test."""
    for item in items:
        if "live" in item.path.parts:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark in this process, with two cores; tasks are tried twice."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    home = tmp_path_factory.mktemp("spark")
    made = (
        sql.SparkSession.builder.master("local[2,2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "768m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus that stays whole: four partitions."""
    made = Bus(tmp_path_factory.mktemp("bus"))
    yield made
    made.end()


@pytest.fixture
def make_bus(tmp_path: Path) -> Iterator[Callable[..., Bus]]:
    """Return a function that starts a bus of the test's own."""
    made: list[Bus] = []

    def make(**options: Any) -> Bus:
        made.append(Bus(tmp_path / f"bus-{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def new_queue(bus: Bus, spark: Any, tmp_path: Path) -> Callable[..., Queue]:
    """Return a function that creates a queue of a fresh name, as Spark sees it."""

    def create(**options: Any) -> Queue:
        made = Queue(bus, spark, f"queue-{next(_names)}", tmp_path)
        made.create(**options)
        return made

    return create
