"""`make azure-tests`: run the tests of azure-servicebus against a bus with TLS; count and judge.

Fetches the pinned source distribution into build/ once, starts a bus on a loopback address of its
own, and runs pytest on the unmodified tests. `ARGS="test_queues -k peek"` runs some of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.azure_sdk import distribution, live_bus, plugin, verdict
from tests.azure_sdk.distribution import ROOT

EXCEPTIONS: Final = Path(__file__).with_name("exceptions.toml")
# All but those of the administration client, and those that need no service.
FILES: Final = (
    "test_queues",
    "async_tests/test_queues_async",
    "test_sessions",
    "async_tests/test_sessions_async",
    "test_sb_client",
    "async_tests/test_sb_client_async",
    "test_topic",
    "async_tests/test_topic_async",
    "test_subscriptions",
    "async_tests/test_subscriptions_async",
    "test_list_sessions",
    "async_tests/test_list_sessions_async",
    "test_message",
)
# These delete every queue and topic that there is: one after the other, on a bus of their own.
ADMINISTRATION: Final = (
    "mgmt_tests/test_mgmt_namespaces",
    "mgmt_tests/test_mgmt_queues",
    "mgmt_tests/test_mgmt_rules",
    "mgmt_tests/test_mgmt_subscriptions",
    "mgmt_tests/test_mgmt_topics",
    "mgmt_tests/test_topic_filter_counts_live",
    "mgmt_tests/async/test_mgmt_namespaces_async",
    "mgmt_tests/async/test_mgmt_queues_async",
    "mgmt_tests/async/test_mgmt_rules_async",
    "mgmt_tests/async/test_mgmt_subscriptions_async",
    "mgmt_tests/async/test_mgmt_topics_async",
)
# More than there are cores: the tests mostly sleep.
WORKERS: Final = 12


def run(
    tests: Path, files: Sequence[str], workers: int, more: Sequence[str]
) -> list[verdict.Result]:
    """Run the tests on a bus; return their results. Raises CannotListen."""
    with tempfile.TemporaryDirectory(prefix="bendybus-azure-tests-") as folder:
        lines = Path(folder, "results")
        lines.touch()
        with live_bus.started(Path(folder)) as facts:
            trusted = live_bus.read(facts).trusted
            subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-p", "tests.azure_sdk.plugin"),
                    *(f"--rootdir={tests}", "-c", os.devnull, "-o", "asyncio_mode=auto"),
                    *("-q", "-p", "no:cacheprovider", "--tb=short", "--show-capture=no"),
                    *(f"--numprocesses={workers}", "--dist=worksteal") * bool(workers),
                    *(str(tests / f"{name}.py") for name in files),
                    *more,
                ],
                env={
                    **os.environ,
                    live_bus.VARIABLE: str(facts),
                    # What HTTP trusts, synchronous and not; read at import.
                    "REQUESTS_CA_BUNDLE": trusted,
                    "SSL_CERT_FILE": trusted,
                    plugin.RESULTS: str(lines),
                    "PYTHONPATH": str(ROOT),
                },
                cwd=ROOT,
                check=False,
            )
        found = lines.read_text(encoding="utf-8").splitlines()
    return verdict.results(json.loads(line) for line in found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; return 1 if one is not as expected, 2 if none could run."""
    parser = argparse.ArgumentParser(prog="make azure-tests ARGS=…", allow_abbrev=False)
    parser.add_argument("files", nargs="*", help="only files whose names have one of these words")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many processes; 0: none")
    options, more = parser.parse_known_args(arguments)
    files, alone = (
        [
            name
            for name in names
            if not options.files or any(word in f"{name}.py" for word in options.files)
        ]
        for names in (FILES, ADMINISTRATION)
    )
    if not files and not alone:
        parser.error(f"no file has one of these words: {' '.join(options.files)}")
    known = verdict.exceptions(tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")))
    tests = distribution.fetched() / "tests"
    try:
        found = run(tests, files, options.workers, more) if files else []
        found += run(tests, alone, 0, more) if alone else []
    except live_bus.CannotListen as error:
        print(f"azure-tests: {error}", file=sys.stderr)
        return 2
    print(verdict.table(found, known))
    wrong = verdict.unexplained(found, known)
    for line in wrong:
        print(f"UNEXPECTED {line}", file=sys.stderr)
    return 1 if wrong else 0 if found else 2


if __name__ == "__main__":
    sys.exit(main())
