"""`make azure-samples`: run the samples of azure-servicebus against a local bus, one by one.

Fetches the pinned source distribution into build/, rewrites the imports of each sample, gives it
entities of its own by the environment variables that it reads, and prints a table. Nothing of the
samples' text becomes part of this project. A sample passes when it ends with code 0 in time.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.management import ServiceBusAdministrationClient

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "azure-samples"
PIN: Final = ROOT / "requirements" / "azure-samples.txt"
# Some sleep for minutes, to show that locks are renewed.
DEADLINE_S: Final = 600.0
SETTLES_S: Final = 20.0
IDENTITY: Final = "needs an identity of Microsoft Entra"
PROXY: Final = "needs an HTTP proxy, or WebSockets"
ENDPOINT: Final = "its endpoint is a placeholder"
# By name, without the ending _async.
NOT_RUN: Final = {
    "client_identity_authentication": IDENTITY,
    "proxy": PROXY,
    "connection_to_custom_endpoint_address": ENDPOINT,
}
ENDLESS: Final = "waits for messages without end; stopped while it waits"
# They iterate over a receiver that has no longest wait.
CANNOT_END: Final = ("receive_iterator_queue", "failure_and_recovery")
# What their last step asks of this client, which has no AMQP, and how the step fails.
IN_PART: Final = {
    "sample_code_servicebus": (
        "not a valid bendybus.v1.Message",
        "all but its last step, which decodes bytes of AMQP",
    )
}
# Their subscription must have sessions.
IN_SESSIONS: Final = ("list_sessions",)
_BODY: Final = "for those who receive"
_UP: Final = ("--port", "0", "--processes", "1", "-o", "json")
_IMPORT: Final = re.compile(r"^(\s*)(from|import) azure\.(servicebus|identity)\b", re.MULTILINE)
_HERE: Final = {"servicebus": "bendybus.client", "identity": "local_identity"}
_IDENTITY: Final = '''"""Stands for azure.identity: a bus on this machine takes any token."""

import time

from azure.core.credentials import AccessToken


class DefaultAzureCredential:
    def get_token(self, *scopes, **options):
        return AccessToken("local", int(time.time()) + 3600)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass
'''
_IDENTITY_AIO: Final = '''"""Stands for azure.identity.aio."""

import local_identity


class DefaultAzureCredential:
    async def get_token(self, *scopes, **options):
        return local_identity.DefaultAzureCredential().get_token()

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sample."""

    sample: str
    passed: bool | None
    why: str = ""
    took_s: float = 0.0

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Return the row of the table."""
        unknown = "in part" if self.took_s else "not run"
        result = unknown if self.passed is None else "passed" if self.passed else "FAILED"
        return (self.sample, result, f"{self.took_s:.0f} s" if self.took_s else "", self.why)


def rewritten(text: str) -> str:
    """Return the text of a sample with the imports of this project. Pure."""
    return _IMPORT.sub(lambda found: f"{found[1]}{found[2]} {_HERE[found[3]]}", text)


def reason(sample: str) -> str:
    """Return why a sample is not run, "" if it is."""
    return NOT_RUN.get(_plain(sample), "")


def fetched() -> list[Path]:
    """Return the samples of the pinned distribution, rewritten, in build/."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--no-binary=azure-servicebus", f"--dest={BUILD}", f"--requirement={PIN}"]
    subprocess.run(command, check=True)
    [archive] = BUILD.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(BUILD, filter="data")
    made = []
    run = BUILD / "run"
    (run / "local_identity").mkdir(parents=True)
    (run / "local_identity" / "__init__.py").write_text(_IDENTITY, encoding="utf-8")
    (run / "local_identity" / "aio.py").write_text(_IDENTITY_AIO, encoding="utf-8")
    for path in sorted(BUILD.glob("azure*/samples/*_samples/*.py")):
        target = run / path.name
        target.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
        made.append(target)
    return made


@contextmanager
def bus() -> Iterator[tuple[str, str]]:
    """Run a bus; yield its connection string and its address."""
    with tempfile.TemporaryDirectory(prefix="bendybus-samples-") as folder:
        up = subprocess.Popen(
            [*(sys.executable, "-m", "bendybus.cli", "up", "--data", folder), *_UP],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert up.stdout is not None
            facts = json.loads(up.stdout.readline())
            yield facts["connection_string"], facts["endpoint"]
        finally:
            up.terminate()
            up.communicate()


def prepared(connection_string: str, number: int, *, in_sessions: bool = False) -> dict[str, str]:
    """Make entities for one sample, with messages for those that only receive.

    `in_sessions`: whether the subscription has sessions, as the queue for sessions has.
    Returns the variables that tell the sample their names.
    """
    queue, sessions, topic = (f"{kind}-{number}" for kind in ("queue", "sessions", "topic"))
    with ServiceBusAdministrationClient.from_connection_string(connection_string) as made:
        made.create_queue(queue)
        made.create_queue(sessions, requires_session=True)
        made.create_topic(topic)
        made.create_subscription(topic, "subscription", requires_session=in_sessions)
    message = ServiceBusMessage(_BODY, session_id="session" if in_sessions else None)
    with ServiceBusClient.from_connection_string(connection_string) as client:
        if in_sessions:
            with client.get_queue_sender(sessions) as sender:
                sender.send_messages(message)
        with client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(_BODY)] * 12)
        with client.get_topic_sender(topic) as sender:
            sender.send_messages([message] * 12)
    return {
        "SERVICEBUS_QUEUE_NAME": queue,
        "SERVICEBUS_SESSION_QUEUE_NAME": sessions,
        "SERVICEBUS_TOPIC_NAME": topic,
        "SERVICEBUS_SUBSCRIPTION_NAME": "subscription",
        "SERVICEBUS_SESSION_ID": "session",
        "SERVICEBUS_SAS_POLICY": "RootManageSharedAccessKey",
        "SERVICEBUS_SAS_KEY": "local",
    }


def run(sample: Path, variables: dict[str, str]) -> Outcome:
    """Run a sample to its end, or to its deadline."""
    endless = _plain(sample.stem) in CANNOT_END
    began = time.monotonic()
    output = sample.with_suffix(".out")
    with output.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, str(sample)],
            env={**os.environ, **variables},
            cwd=sample.parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            code = child.wait(SETTLES_S if endless else DEADLINE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = None
            child.wait()
    took_s = time.monotonic() - began
    said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    sentence, why = IN_PART.get(sample.stem, ("", ""))
    if sentence and said and sentence in said[-1]:
        return Outcome(sample.stem, None, why, took_s)
    if "Traceback (most recent call last):" in said or code not in (0, None):
        return Outcome(sample.stem, False, said[-1] if said else f"code {code}", took_s)
    if code is None:
        return Outcome(sample.stem, endless, ENDLESS if endless else "did not end", took_s)
    return Outcome(sample.stem, True, "", took_s)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table, and a line that counts. Pure."""
    rows = [("SAMPLE", "RESULT", "TOOK", "NOTE"), *(each.row for each in outcomes)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    count = {value: sum(each.passed is value for each in outcomes) for value in (True, False, None)}
    lines.append(f"{count[True]} passed, {count[False]} failed, {count[None]} not run or in part")
    return "\n".join(lines)


def _plain(sample: str) -> str:
    return sample.removesuffix("_async")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all samples, or those whose names have some words; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="make azure-samples ARGS=…", allow_abbrev=False)
    parser.add_argument("words", nargs="*", help="only samples whose names have one of these")
    parser.add_argument("--workers", type=int, default=6, help="how many at a time")
    options = parser.parse_args(arguments)
    found = [
        sample
        for sample in fetched()
        if not options.words or any(word in sample.stem for word in options.words)
    ]
    # Those that sleep for minutes begin first.
    found.sort(key=lambda sample: (not sample.stem.startswith("auto_lock"), sample.stem))
    with bus() as (connection_string, address), ThreadPoolExecutor(options.workers) as workers:

        def one(numbered: tuple[int, Path]) -> Outcome:
            number, sample = numbered
            why = reason(sample.stem)
            if why:
                return Outcome(sample.stem, None, why)
            in_sessions = _plain(sample.stem) in IN_SESSIONS
            own = prepared(connection_string, number, in_sessions=in_sessions)
            own["SERVICEBUS_FULLY_QUALIFIED_NAMESPACE"] = address
            own["SERVICEBUS_CONNECTION_STR"] = connection_string
            return run(sample, own)

        outcomes = sorted(workers.map(one, enumerate(found)), key=lambda each: each.sample)
    print(table(outcomes))
    return 1 if any(each.passed is False for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
