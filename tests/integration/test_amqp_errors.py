"""What azure-servicebus makes of each error, as docs/reference/azure-sdks.md says."""

import gc
from collections.abc import Iterator

import pytest

from tests.azure_sdk.error_run import ErrorRun
from tests.azure_sdk.error_table import Case, cases

pytestmark = [
    pytest.mark.xdist_group("errors of the SDK"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ErrorRun]:
    made = ErrorRun(tmp_path_factory.mktemp("errors"), ["python"])
    yield made
    made.end()
    gc.collect()


@pytest.mark.requirement("R516")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_program_sees_the_error_of_the_table(run: ErrorRun, case: Case) -> None:
    found, expected = run.found(case.name, "python"), case.found["python"]

    assert (found.kind, found.reason) == (expected.kind, expected.reason)
