"""What the SDKs make of each error, as docs/reference/azure-sdks.md says."""

import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from tests.azure_sdk.error_run import ErrorRun
from tests.azure_sdk.error_table import Case, cases
from tests.sdks.programs import PROGRAMS

SDKS: Final = [each.sdk for each in PROGRAMS]
CASES: Final = [
    (sdk, case) for sdk, case in itertools.product(SDKS, cases()) if sdk not in case.without
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ErrorRun]:
    made = ErrorRun(tmp_path_factory.mktemp("errors"), SDKS)
    yield made
    made.end()


@pytest.mark.requirement("R516")
@pytest.mark.parametrize(("sdk", "case"), CASES, ids=lambda each: getattr(each, "name", each))
def test_a_program_sees_the_error_of_the_table(run: ErrorRun, sdk: str, case: Case) -> None:
    found, expected = run.found(case.name, sdk), case.found[sdk]

    assert (found.kind, found.reason) == (expected.kind, expected.reason)
