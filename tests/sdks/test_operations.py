"""Each operation of the official SDKs of other languages; see tests/azure_sdk/operations.toml."""

import functools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.azure_sdk.operation_bus import RIGHTS, OperationBus, name_of
from tests.azure_sdk.operation_table import Row, cases, rows
from tests.sdks.programs import PROGRAMS, Job, Program, Run

# All operations of a program, which does several at a time.
ENDS_S: Final = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """An operation of a program, on an entity of a layout."""

    program: Program
    row: Row
    layout: str

    @property
    def name(self) -> str:
        """The entity, and the test."""
        return name_of(self.row, self.layout, self.program.sdk)


CASES: Final = [
    Case(program, row, layout) for program in PROGRAMS for row, layout in cases(program.sdk)
]
Start = Callable[[Program], Mapping[str, Future[None]]]


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperationBus]:
    made = OperationBus(tmp_path_factory.mktemp("bus"), [each.name for each in CASES])
    yield made
    made.end()


@pytest.fixture(scope="module")
def start(request: pytest.FixtureRequest, bus: OperationBus) -> Iterator[Start]:
    """Return what starts a program, once, on all of its operations that are to be tested."""
    runs: list[Run] = []
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    params = [call.params.get("case") for call in calls if call]
    cases = [each for each in params if isinstance(each, Case)]

    @functools.cache
    def started(program: Program) -> Mapping[str, Future[None]]:
        program.built()
        jobs = [job(bus, case) for case in cases if case.program is program]
        runs.append(program.start(jobs, bus.ca_file))
        return runs[-1].results

    yield started
    for each in runs:
        each.end()


def job(bus: OperationBus, case: Case) -> Job:
    """Create the entity of a case; return what its program needs to know."""
    bus.create(case.row, case.name, case.layout)
    rights = (*RIGHTS, "Manage")
    strings = {right.lower(): bus.connection_string(case.name, right) for right in rights}
    asked: dict[str, Any] = {"id": case.name, "operation": case.row.name, "entity": case.name}
    return {**asked, "topic": case.row.has_topic, **strings}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.sdk)
def test_the_operations_are_those_of_the_table(program: Program) -> None:
    program.built()

    assert sorted(program.operations()) == sorted(row.name for row in rows(program.sdk))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operation(start: Start, bus: OperationBus, case: Case) -> None:
    try:
        start(case.program)[case.name].result(ENDS_S)

        assert bus.counts_after(case.row, case.name) == case.row.left
    finally:
        bus.delete(case.row, case.name)
