"""`python -m tests.azure_sdk.error_run`: run programs into their errors, and write the table."""

import sys
import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.azure_sdk import error_calls, error_table
from tests.azure_sdk.error_bus import ErrorBus
from tests.azure_sdk.error_table import Case, Found
from tests.sdks.programs import PROGRAMS, Run

# All errors of a program, which meets several at a time.
ENDS_S: Final = 300.0
# A case, and an SDK.
Key = tuple[str, str]


class ErrorRun:
    """Programs of some SDKs that meet their errors, on a whole bus and on one that is not."""

    def __init__(self, folder: Path, sdks: Collection[str]) -> None:
        self._buses = [
            ErrorBus(folder / f"whole-{whole}", sdks, whole=whole) for whole in (True, False)
        ]
        self._runs: list[Run] = []
        self._results: dict[Key, tuple[ErrorBus, Case, Future[Any]]] = {}
        jobs = 2 * len(error_table.cases())
        self._pool = ThreadPoolExecutor(jobs)
        for bus in self._buses:
            for sdk in sdks:
                self._start(bus, sdk)

    def found(self, name: str, sdk: str) -> Found:
        """Return what a program of an SDK found. Raises AssertionError if it found no error."""
        bus, case, result = self._results[name, sdk]
        return bus.found(case, sdk, result.result(ENDS_S))

    def all_found(self) -> tuple[Mapping[Key, Found], Mapping[Key, str]]:
        """Return what all of them found, and why some found nothing."""
        found, failed = {}, {}
        for key in self._results:
            try:
                found[key] = self.found(*key)
            except AssertionError as error:
                failed[key] = str(error)
        return found, failed

    def end(self) -> None:
        """End all of it."""
        for run in self._runs:
            run.end()
        self._pool.shutdown(cancel_futures=True)
        for bus in self._buses:
            bus.end()

    def _start(self, bus: ErrorBus, sdk: str) -> None:
        cases = [each for each in bus.cases if sdk not in each.without]
        jobs = [bus.job(each, sdk) for each in cases]
        if sdk == "python":
            calls = (error_calls.Program(job, bus.ca_file) for job in jobs)
            results = [self._pool.submit(each.run) for each in calls]
        else:
            [program] = [each for each in PROGRAMS if each.sdk == sdk]
            program.built()
            self._runs.append(program.start(jobs, bus.ca_file))
            results = [self._runs[-1].results[job["id"]] for job in jobs]
        for case, result in zip(cases, results, strict=True):
            self._results[case.name, sdk] = bus, case, result


def main(sdks: Collection[str]) -> int:
    """Write what programs found; those of all SDKs unless some are named."""
    with tempfile.TemporaryDirectory(prefix="bendybus-errors-") as folder:
        run = ErrorRun(Path(folder), sdks or error_table.SDKS)
        try:
            found, failed = run.all_found()
        finally:
            run.end()
    error_table.write(found)
    for (name, sdk), reason in failed.items():
        print(f"{sdk} {name}: {reason}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
