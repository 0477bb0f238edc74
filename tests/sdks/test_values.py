"""Values of each type of AMQP, in programs on the SDKs; see docs/reference/azure-sdks.md."""

import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from tests.azure_sdk import value_table
from tests.azure_sdk.value_table import TYPES, ValueRun
from tests.sdks.dotnet_bus import DotnetBus

pytestmark = pytest.mark.requirement("R577")
SDKS: Final = [each for each in value_table.SDKS if each != "dotnet"]
EXPECTED: Final = value_table.table()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValueRun]:
    made = ValueRun(tmp_path_factory.mktemp("values"), SDKS)
    yield made
    made.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("sdk", "kind"), [*itertools.product(SDKS, TYPES)])
def test_a_program_gets_the_value_of_the_table(run: ValueRun, sdk: str, kind: str) -> None:
    assert run.found(kind, sdk) == EXPECTED[kind][sdk]


@pytest.mark.parametrize("kind", TYPES)
def test_a_program_on_net_gets_the_value_of_the_table(dotnet: DotnetBus, kind: str) -> None:
    assert value_table.of_dotnet(dotnet, kind) == EXPECTED[kind]["dotnet"]
