"""Samples of azure-servicebus: what is replaced for them, which are run, and what is reported."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import certifi

from tests.azure_sdk import live_bus, samples
from tests.azure_sdk.distribution import PIN, ROOT
from tests.azure_sdk.live_bus import Facts
from tests.azure_sdk.samples import Outcome

# What a sample could say: which file of authorities its process has, and which tokens.
PROGRAM = """
import asyncio, json, certifi
from azure.identity import DefaultAzureCredential, EnvironmentCredential
from azure.identity.aio import DefaultAzureCredential as Later

async def later():
    async with Later() as credential:
        return await credential.get_token("scope")

with DefaultAzureCredential() as credential:
    token = credential.get_token("scope")
tokens = [token, EnvironmentCredential().get_token("scope"), asyncio.run(later())]
assert __name__ == "__main__"
print(json.dumps([certifi.where(), *tokens]))
"""


def test_a_sample_has_the_file_of_authorities_and_tokens_that_the_bus_verifies(
    tmp_path: Path,
) -> None:
    facts = Facts("127.1.2.3", "", "", str(tmp_path / "trusted.pem"), "")
    file, program = tmp_path / "bus.json", tmp_path / "sample.py"
    file.write_text(json.dumps(asdict(facts)), encoding="utf-8")
    program.write_text(PROGRAM, encoding="utf-8")

    said = subprocess.run(
        [sys.executable, "-m", "tests.azure_sdk.sample_process", str(program)],
        env={**os.environ, live_bus.VARIABLE: str(file)},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    trusted, *tokens = json.loads(said)
    assert trusted == facts.trusted != certifi.where()
    assert len(tokens) == 3
    for token, ends_s in tokens:
        assert token == facts.token(ends_s)


def test_what_is_not_run_has_a_reason_for_both_surfaces() -> None:
    assert samples.reason("proxy") == samples.reason("proxy_async") != ""
    assert samples.reason("send_queue_async") == ""


def test_a_sample_passes_only_if_it_ends_with_code_0_and_without_a_traceback() -> None:
    failed = ["Traceback (most recent call last):", "ValueError: x"]

    assert samples.judged("send_queue", 0, ["sent"], 1.0) == Outcome("send_queue", True, "", 1.0)
    for code, said, why in (
        (1, ["why"], "why"),
        (0, failed, failed[-1]),
        (None, [], "did not end"),
    ):
        assert samples.judged("send_queue", code, said, 1.0).why == why
        assert samples.judged("send_queue", code, said, 1.0).passed is False


def test_a_sample_that_cannot_end_is_stopped_with_the_reason_and_still_fails_by_an_error() -> None:
    stopped = samples.judged("receive_iterator_queue_async", None, ["message"], 30.0)
    broken = samples.judged("receive_iterator_queue_async", 1, ["why"], 3.0)

    assert (stopped.passed, stopped.why) == (True, samples.ENDLESS)
    assert (broken.passed, broken.why) == (False, "why")


def test_the_table_names_what_failed_and_counts() -> None:
    told = samples.table(
        [Outcome("a", True, "", 3.2), Outcome("long_one", False, "why", 1.0), Outcome("c", None)]
    )

    assert told.splitlines() == [
        "SAMPLE    RESULT   TOOK  NOTE",
        "a         passed   3 s",
        "long_one  FAILED   1 s   why",
        "c         not run",
        "1 passed, 1 failed, 1 not run",
    ]


def test_the_samples_are_of_the_version_that_the_client_is_compared_with() -> None:
    def pinned(file: Path) -> list[str]:
        text = file.read_text(encoding="utf-8")
        return re.findall(r"^azure-servicebus==(\S+)", text, re.MULTILINE)

    dev = ROOT / "requirements" / "dev.txt"
    [own_hash] = re.findall(r"sha256:(\w{64})", PIN.read_text(encoding="utf-8"))

    assert pinned(PIN) == pinned(dev)
    assert own_hash in dev.read_text(encoding="utf-8")
