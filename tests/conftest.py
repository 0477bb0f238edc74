"""What all tests share: end-to-end tests run only when they are asked for."""

from pathlib import Path

import pytest

E2E = Path(__file__).parent / "e2e"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--e2e",
        action="store_true",
        help="run the tests on a cluster (docs/how-to/test-on-a-cluster.md)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--e2e") and E2E in (collection_path, *collection_path.parents):
        return True
    return None
