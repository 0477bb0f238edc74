"""`make azure-samples`: run the samples of azure-servicebus as published, on a bus with TLS.

Downloads the pinned source distribution into build/ and runs each sample in a process of its own
(`sample_process`), with entities of its own, named in the environment variables that it reads.
Prints a table. A sample passes when it exits with code 0 in time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bendybus.client import ServiceBusClient, ServiceBusMessage
from tests.azure_sdk import distribution, live_bus
from tests.azure_sdk.distribution import ROOT
from tests.azure_sdk.live_bus import Facts
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

OUTPUT: Final = ROOT / "build" / "azure-samples"
# Some sleep for minutes, to show that locks are renewed.
DEADLINE_S: Final = 600.0
SETTLES_S: Final = 30.0
ADMINISTRATION: Final = "needs the administration client, which uses HTTP"
PROXY: Final = "needs an HTTP proxy"
ENDPOINT: Final = "its endpoint and its CA file are placeholders"
# By name, without the ending _async.
NOT_RUN: Final = {
    "mgmt_queue": ADMINISTRATION,
    "mgmt_rule": ADMINISTRATION,
    "mgmt_subscription": ADMINISTRATION,
    "mgmt_topic": ADMINISTRATION,
    "topic_subscription_with_rule_operations": ADMINISTRATION,
    "proxy": PROXY,
    "connection_to_custom_endpoint_address": ENDPOINT,
}
ENDLESS: Final = "waits for messages forever; stopped while it waits"
# They iterate over a receiver without max_wait_time.
CANNOT_END: Final = ("receive_iterator_queue", "failure_and_recovery")
# Their subscription must have sessions.
IN_SESSIONS: Final = ("list_sessions",)
_BODY: Final = "for those who receive"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sample. `passed`: None if it was not run."""

    sample: str
    passed: bool | None
    why: str = ""
    took_s: float = 0.0

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Return the row of the table."""
        result = "not run" if self.passed is None else "passed" if self.passed else "FAILED"
        return (self.sample, result, f"{self.took_s:.0f} s" if self.took_s else "", self.why)


def reason(sample: str) -> str:
    """Return why a sample is not run, "" if it is."""
    return NOT_RUN.get(_plain(sample), "")


def prepared(facts: Facts, number: int, *, in_sessions: bool = False) -> dict[str, str]:
    """Make entities for one sample, with messages for those that only receive.

    `in_sessions`: whether the subscription has sessions, as the queue for sessions has.
    Returns the variables that tell the sample their names.
    """
    queue, sessions, topic = (f"{kind}-{number}" for kind in ("queue", "sessions", "topic"))
    with facts.administration() as made:
        made.create_queue(queue)
        made.create_queue(sessions, requires_session=True)
        made.create_topic(topic)
        made.create_subscription(topic, "subscription", requires_session=in_sessions)
    message = ServiceBusMessage(_BODY, session_id="session" if in_sessions else None)
    with ServiceBusClient.from_connection_string(
        facts.administration_string, connection_verify=facts.ca_file
    ) as client:
        if in_sessions:
            with client.get_queue_sender(sessions) as sender:
                sender.send_messages(message)
        with client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(_BODY)] * 12)
        with client.get_topic_sender(topic) as sender:
            sender.send_messages([message] * 12)
    return {
        "SERVICEBUS_FULLY_QUALIFIED_NAMESPACE": facts.address,
        "SERVICEBUS_CONNECTION_STR": facts.connection_string(),
        "SERVICEBUS_QUEUE_NAME": queue,
        "SERVICEBUS_SESSION_QUEUE_NAME": sessions,
        "SERVICEBUS_TOPIC_NAME": topic,
        "SERVICEBUS_SUBSCRIPTION_NAME": "subscription",
        "SERVICEBUS_SESSION_ID": "session",
        "SERVICEBUS_SAS_POLICY": ROOT_POLICY,
        "SERVICEBUS_SAS_KEY": ROOT_KEY,
    }


def run(sample: Path, variables: dict[str, str], output: Path) -> Outcome:
    """Run a sample to its end, or to its deadline. `output`: where it prints to."""
    endless = _plain(sample.stem) in CANNOT_END
    began = time.monotonic()
    with output.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.azure_sdk.sample_process", str(sample)],
            env={**os.environ, **variables},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        code: int | None
        try:
            code = child.wait(SETTLES_S if endless else DEADLINE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code = None
    said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return judged(sample.stem, code, said, time.monotonic() - began)


def judged(sample: str, code: int | None, said: Sequence[str], took_s: float) -> Outcome:
    """Return what became of a sample. `code`: None if it had to be stopped. Pure."""
    endless = _plain(sample) in CANNOT_END
    if "Traceback (most recent call last):" in said or code not in (0, None):
        return Outcome(sample, False, said[-1] if said else f"code {code}", took_s)
    if code is None:
        return Outcome(sample, endless, ENDLESS if endless else "did not end", took_s)
    return Outcome(sample, True, "", took_s)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table, and a line that counts. Pure."""
    rows = [("SAMPLE", "RESULT", "TOOK", "NOTE"), *(each.row for each in outcomes)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    count = {value: sum(each.passed is value for each in outcomes) for value in (True, False, None)}
    lines.append(f"{count[True]} passed, {count[False]} failed, {count[None]} not run")
    return "\n".join(lines)


def _plain(sample: str) -> str:
    return sample.removesuffix("_async")


def _all_run(samples: Sequence[Path], workers: int, folder: Path) -> list[Outcome]:
    """Run samples on a bus, some at a time. Raises CannotListen."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with live_bus.started(folder) as file, ThreadPoolExecutor(workers) as pool:
        facts = live_bus.read(file)

        def one(numbered: tuple[int, Path]) -> Outcome:
            number, sample = numbered
            why = reason(sample.stem)
            if why:
                return Outcome(sample.stem, None, why)
            in_sessions = _plain(sample.stem) in IN_SESSIONS
            own = prepared(facts, number, in_sessions=in_sessions)
            own[live_bus.VARIABLE] = str(file)
            return run(sample, own, OUTPUT / f"{sample.stem}.out")

        return sorted(pool.map(one, enumerate(samples)), key=lambda each: each.sample)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all samples, or those whose names have some words; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="make azure-samples ARGS=…", allow_abbrev=False)
    parser.add_argument("words", nargs="*", help="only samples whose names have one of these")
    parser.add_argument("--workers", type=int, default=6, help="how many at a time")
    options = parser.parse_args(arguments)
    found = [
        sample
        for sample in distribution.fetched().glob("samples/*_samples/*.py")
        if not options.words or any(word in sample.stem for word in options.words)
    ]
    # Those that sleep for minutes begin first.
    found.sort(key=lambda sample: (not sample.stem.startswith("auto_lock"), sample.stem))
    if not found:
        parser.error(f"no sample has one of these words: {' '.join(options.words)}")
    try:
        with tempfile.TemporaryDirectory(prefix="bendybus-azure-samples-") as folder:
            outcomes = _all_run(found, options.workers, Path(folder))
    except live_bus.CannotListen as error:
        print(f"azure-samples: {error}", file=sys.stderr)
        return 2
    print(table(outcomes))
    return 1 if any(each.passed is False for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
