"""What README and the how-to pages print runs as printed, from a wheel, against a local bus."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer.main

from bendybus.cli.bus.management import Management
from bendybus.cli.commands import run_command
from bendybus.cli.commands.app import app
from bendybus.client.management import ServiceBusAdministrationClient
from tests.printed import installed
from tests.printed.blocks import Block, blocks, inline
from tests.printed.installed import Environment
from tests.printed.pages import ASKS, COMMON, NOT_RUN, PAGES, PARSED, SHORTER, Page
from tests.test_tidy import ROOT

ALL = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
]
CLI = typer.main.get_command(app)
# The extras that README and the pages name.
EXTRAS = ("server", "tracing")
DEADLINE_S = 60

integration = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.xdist_group("printed"),
    pytest.mark.requirement("R375"),
]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def reason(path: Path, block: Block) -> str:
    """Return why a block is only parsed, "" if it is run."""
    found = PARSED.get(named(path), "")
    return found.get(block.section, "") if isinstance(found, dict) else found


# What needs nothing


@pytest.mark.requirement("R375")
def test_every_page_with_code_is_run_or_has_a_reason_why_not() -> None:
    run = {page.path for page in PAGES}
    unnamed = {
        named(path)
        for path in ALL
        if any(not reason(path, block) for block in blocks(path)) and named(path) not in run
    }

    assert unnamed == set()
    assert {*PARSED} <= {named(path) for path in ALL}


@pytest.mark.requirement("R375")
@pytest.mark.parametrize("path", ALL, ids=named)
def test_programs_compile_and_commands_have_the_options_that_they_use(path: Path) -> None:
    wrong = []
    for block in blocks(path):
        if block.language == "python":
            compile(block.text, str(path), "exec")
    shell = [line for block in blocks(path) if block.language == "sh" for line in block.lines()]
    for line in [*shell, *inline(path)]:
        wrong += [f"{line}: {word}" for word in unknown(line)]

    assert wrong == []


def unknown(line: str) -> list[str]:
    """Return the options and commands of a line that `bendybus` does not have."""
    match = re.search(r"(?:^|\| )bendybus (.*?)(?: \||$)", line.strip())
    if match is None:
        return []
    try:
        words = shlex.split(match[1].split("  #")[0], comments=True)
    except ValueError:
        return []
    command: Any = CLI
    found = []
    for word in run_command.ordered_options([word for word in words if word != "…"], CLI):
        within = getattr(command, "commands", {})
        if word.startswith("-") and len(word) > 1:
            known = {name for each in command.params for name in each.opts + each.secondary_opts}
            known |= {"--help", "--install-completion", "--output=json"}
            known |= {name for each in CLI.params for name in each.opts}
            if command.name == "pipeline":
                break
            if word.partition("=")[0] not in known and word not in known:
                found.append(word)
        elif word in within:
            command = within[word]
    return found


@pytest.mark.requirement("R375")
def test_a_line_that_has_another_option_is_found() -> None:
    assert unknown("bendybus get queues --kube --nothing x") == ["--nothing"]
    assert unknown("echo x | bendybus send q --key-field a  # b") == []


@pytest.mark.requirement("R375")
@pytest.mark.parametrize("path", ALL, ids=named)
def test_no_page_installs_from_an_index_that_does_not_have_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert re.findall(r"pip install '?bendybus", text) == []


# What needs a bus


class Bus:
    """The bus that `bendybus up` of the wheel runs, and how printed code is run against it."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.variables = environment.variables(
            XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder), COLUMNS="200"
        )
        self.errors = (folder / "up.err").open("wb")
        self.process = subprocess.Popen(
            ["bendybus", "up", "-f", "examples/flights.yaml", "--port", "0", "-o", "json"],
            executable=str(environment.folder / "bin" / "bendybus"),
            env=self.variables,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        assert self.process.stdout is not None
        facts = json.loads(self.process.stdout.readline())
        self.connection_string = facts["connection_string"]
        # By what pages print.
        self.addresses = {
            "127.0.0.1:7480": facts["endpoint"],
            "127.0.0.1:5672": facts["amqp_endpoints"][0],
            "/path/to/ca.crt": facts["ca_file"],
        }

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)
        self.errors.close()

    def emptied(self) -> None:
        """Undo what another page did: a partition that it stopped, entities that it made."""
        self.whole()
        with ServiceBusAdministrationClient.from_connection_string(self.connection_string) as made:
            for topic in made.list_topics():
                made.delete_topic(topic.name)
            left = [each.name for each in made.list_queues()]
            for name in sorted(left, reverse=True):
                # Manifests, and a file that a page applies, have these.
                if name not in ("flights", "audit", "returns"):
                    made.delete_queue(name)

    def whole(self) -> None:
        """Start every partition that is down, and wait until the front end has all of them."""
        with Management(self.connection_string) as management:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                down = [each for each in management.namespace().partitions if not each.available]
                if not down:
                    return
                assert time.monotonic() < deadline
                self.shell(f"bendybus partition start {down[0].partition}")
                time.sleep(0.1)

    def shell(self, line: str) -> "subprocess.CompletedProcess[str]":
        for printed, actual in self.addresses.items():
            line = line.replace(printed, actual)
        return subprocess.run(
            ["/bin/bash", "-c", line],
            env=self.variables,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def python(self, text: str) -> str:
        """Run a program; return what it prints."""
        for printed, shorter in SHORTER.items():
            text = text.replace(printed, shorter)
        for printed, actual in self.addresses.items():
            text = text.replace(printed, actual)
        file = self.folder / "program.py"
        file.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [str(self.environment.python), str(file)],
            env={**self.variables, "PYTHONWARNINGS": "error"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return done.stdout

    @property
    def common(self) -> str:
        return COMMON.format(connection_string=self.connection_string)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    folder = tmp_path_factory.mktemp("printed")
    environment = installed.install(folder, EXTRAS, ["opentelemetry-sdk", "azure-servicebus"])
    made = Bus(environment, folder)
    yield made
    made.end()


class TestPrintedCode:
    """All in one process: they share a bus."""

    pytestmark: ClassVar = integration

    def test_imports_come_from_the_wheel_and_only_the_extras_are_there(self, bus: Bus) -> None:
        said = bus.python(
            "import importlib.util, bendybus.cli, bendybus.partition_server as server\n"
            "print(bendybus.cli.__file__, server.__file__)\n"
            "print(importlib.util.find_spec('kopf'), importlib.util.find_spec('pytest'))\n"
        )

        first, second = said.splitlines()
        assert all(each.startswith(str(bus.folder)) for each in first.split())
        assert second == "None None"

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
    def test_what_a_page_prints_runs(self, bus: Bus, page: Page) -> None:
        found = [block for block in blocks(page.file) if not reason(page.file, block)]
        said = []

        bus.emptied()
        for block in found:
            for line in block.lines() if block.language == "sh" else ():
                said.append(self.run_line(bus, page, line))
        bus.emptied()
        said.append(self.run_programs(bus, page, found))

        whole = "\n".join(said)
        assert [each for each in page.said if each not in whole] == []

    @pytest.mark.parametrize("action", ["inspect", "check", "export"])
    def test_the_extra_for_servers_is_enough_to_read_a_file(self, bus: Bus, action: str) -> None:
        done = bus.shell(f"bendybus store {action} 3")

        assert (done.returncode, done.stderr) == (0, "")

    def run_line(self, bus: Bus, page: Page, line: str) -> str:
        if line.startswith(tuple(NOT_RUN)):
            return ""
        for words, program in page.before.items():
            if words in line and program:
                bus.python(bus.common + program)
        if line.startswith(ASKS):
            line = line.replace("  #", " --yes  #") if "  #" in line else f"{line} --yes"
        printed = re.search(r"--number (\d+)", line)
        if printed:
            listed = bus.shell("bendybus deadletter list orders -o json").stdout.splitlines()
            line = line.replace(printed[1], str(json.loads(listed[0])["sequence_number"]))
        began = time.monotonic()
        done = bus.shell(line)
        fails = "# fails" in line
        took_s = time.monotonic() - began
        assert (done.returncode != 0) == fails, f"{line} ({took_s:.0f} s)\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def run_programs(self, bus: Bus, page: Page, found: list[Block]) -> str:
        """Run the blocks in Python as one program, as a reader does who goes on typing."""
        parts = []
        for block in found:
            if block.language == "python":
                before = [each for words, each in page.before.items() if words in block.text]
                parts += [*before, block.text]
        if not parts:
            return ""
        own = "with client, administration:\n    pass\n"
        return bus.python("\n".join([bus.common, page.python, *parts, own]))


def test_reasons_are_about_pages_that_exist() -> None:
    sections = {
        section for found in PARSED.values() if isinstance(found, dict) for section in found
    }

    assert sections <= {block.section for block in blocks(ROOT / "README.md")}
