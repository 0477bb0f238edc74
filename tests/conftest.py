"""What all tests share: how they are dealt over processes, and when end-to-end tests run."""

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import sdk_leftovers

E2E = Path(__file__).parent / "e2e"
# With real Spark, which `make spark-install` installs in an environment of its own.
SPARK = Path(__file__).parent / "spark" / "live"
# Against another implementation of AMQP, which `make test-peers` installs: it is compiled.
PEERS = Path(__file__).parent / "amqp_peers"
# With the toolchains of other languages, which `make sdks` needs: only where they are asked for.
SDKS = (Path(__file__).parent / "sdks", Path(__file__).parent / "programs")
# In the paths of tests that use the official SDK.
OFFICIAL = (
    "amqp",
    "azure",
    "chaos",
    "compose",
    "emulator",
    "over_http",
    "printed",
    "shared_port",
    "web_bounds",
)
# How long a test may take where it first waits for a cluster, Spark, or toolchains and their
# downloads; any other has the limit of pyproject.toml.
FOREIGN_S = 1_200
# Fixtures that start processes for many tests: what uses one stays in one test process.
SHARED = frozenset({"bus", "standard_bus", "secured"})
# Of those, what costs so much (17 processes) that only one test process starts it.
SHARED_ONCE = "standard_bus"
# Real processes wait far more than they work.
WORKERS_PER_CORE = 3
WORKERS_MIN, WORKERS_MAX = 4, 16

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("bendybus", deadline=None)
settings.load_profile("bendybus")

# Collecting makes objects that stay: each search through all of them finds nothing.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--e2e",
        action="store_true",
        help="run the tests on a cluster (docs/how-to/test-on-a-cluster.md)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--e2e") and E2E in (collection_path, *collection_path.parents):
        return True
    if SPARK in (collection_path, *collection_path.parents):
        return importlib.util.find_spec("pyspark") is None or None
    for folder in SDKS:
        if folder in (collection_path, *collection_path.parents):
            return None if any(f"tests/{folder.name}" in each for each in config.args) else True
    if PEERS in (collection_path, *collection_path.parents):
        return importlib.util.find_spec("proton") is None or None
    return None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes `make test` uses."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(WORKERS_MIN, min(WORKERS_MAX, WORKERS_PER_CORE * (cores or 1)))


# Before pytest-xdist reads the groups, and after the hooks of the folders, which mark their tests.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal tests over processes: slow ones first and one by one, the others by file.

    What is slow starts real processes and waits for them. With no parallelism the order is still
    the same one, so that what fails fails again.
    """
    if not config.getoption("--e2e"):
        items.sort(key=_turn)
    for item in items:
        if any(folder in item.path.parents for folder in (E2E, SPARK, *SDKS)):
            item.add_marker(pytest.mark.timeout(FOREIGN_S))
        group = _group(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails at once: a run that is ended from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message.partition("\n")[0] if crash else ""
        print(f"\nfailed at {report.when}: {report.nodeid} {why}", flush=True)


def _uses_official_sdk(request: pytest.FixtureRequest) -> bool:
    path = request.path.as_posix()
    return "azure.servicebus" in sys.modules and any(each in path for each in OFFICIAL)


@pytest.fixture(autouse=True)
def _after_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no socket of the official SDK be found in another test than that which used it."""
    yield
    if _uses_official_sdk(request):
        sdk_leftovers.collect()


@pytest.fixture(autouse=True, scope="module")
def _after_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nor any of what a module has for all of its tests."""
    yield
    if _uses_official_sdk(request):
        sdk_leftovers.end_threads()
        sdk_leftovers.collect()


def pytest_collection_finish() -> None:
    """Search for garbage from here on, but not in the modules and tests, which stay to the end."""
    gc.freeze()
    gc.enable()


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return 0
    if not item.get_closest_marker("integration"):
        return 3
    # Together, so that each process can end what they share after the last of them.
    return 1 if _shares(item) else 2


def _group(item: pytest.Item) -> str:
    """Return what keeps a test together with others; nothing: it runs where there is room."""
    if item.get_closest_marker("xdist_group"):
        return ""
    if _shares(item) and SHARED_ONCE in getattr(item, "fixturenames", ()):
        return SHARED_ONCE
    alone = item.get_closest_marker("integration") and not _shares(item)
    return "" if alone else item.nodeid.partition("::")[0]


def _shares(item: pytest.Item) -> bool:
    names = set(getattr(item, "fixturenames", ()))
    return bool(names & SHARED) and "make_bus" not in names and "faults" not in item.path.parts
