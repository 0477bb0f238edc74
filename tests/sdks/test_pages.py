"""The programs of the pages about official SDKs run, on a bus of `bendybus up`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.sdks.dotnet_driver import dotnet
from tests.sdks.programs import FOLDER, PROGRAMS, Program
from tests.sdks.test_operations import ENDS_S

PAGES: Final = FOLDER.parents[1] / "docs" / "how-to"
# The language of the block, the file, and how it is run.
RUN: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "javascript": ("js", "orders.mjs", ["node", "orders.mjs"]),
    "go": ("go", "page/orders.go", ["go", "run", "./page"]),
    "java": ("java", "target/Orders.java", ["java", "target/Orders.java"]),
}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return what `bendybus up` says of itself."""
    folder = tmp_path_factory.mktemp("bus")
    command = [
        *(sys.executable, "-m", "bendybus.cli", "up", "--data", str(folder), "--port", "0"),
        *("--amqp-port", "0", "--queue", "orders", "-o", "json"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(30)


PROJECT: Final = """\
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net10.0</TargetFramework>
    <ImplicitUsings>enable</ImplicitUsings>
    <Nullable>enable</Nullable>
  </PropertyGroup>
  <ItemGroup>
    <PackageReference Include="Azure.Messaging.ServiceBus" Version="[7.21.0]" />
  </ItemGroup>
</Project>
"""


@pytest.mark.skipif(dotnet() is None, reason="NOT RUN: there is no dotnet")
def test_the_program_of_the_page_for_dotnet_runs(bus: dict[str, Any], tmp_path: Path) -> None:
    text = program_of("use-the-azure-sdk-for-dotnet.md", "csharp")
    (tmp_path / "Program.cs").write_text(text, encoding="utf-8")
    (tmp_path / "orders.csproj").write_text(PROJECT, encoding="utf-8")
    environment = {**os.environ, "SERVICEBUS_CONNECTION_STRING": bus["amqp_connection_string"]}

    done = subprocess.run(
        [dotnet() or "", "run", "--project", str(tmp_path)], env=environment, capture_output=True,
        text=True, timeout=ENDS_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3_000:] + done.stdout[-3_000:]
    assert done.stdout.splitlines()[-3:] == ["order 1", "order 2", "left: 0"]


def program_of(page: str, language: str) -> str:
    """Return the program of a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.sdk)
def test_the_program_of_a_page_runs(bus: dict[str, Any], program: Program, tmp_path: Path) -> None:
    program.built()
    language, name, command = RUN[program.sdk]
    file = program.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        program_of(f"use-the-azure-sdk-for-{program.sdk}.md", language), encoding="utf-8"
    )
    environment = {
        **os.environ,
        **program.variables(),
        "SERVICEBUS_CONNECTION_STRING": bus["amqp_connection_string"],
        program.ca_variable: bus["ca_file"],
    }
    if program.sdk == "java":
        store = tmp_path / "bus.p12"
        made = ["keytool", "-importcert", "-noprompt", "-storepass", "changeit"]
        subprocess.run(
            [*made, "-file", bus["ca_file"], "-keystore", str(store)],
            check=True,
            capture_output=True,
        )
        command = [
            *("java", f"-Djavax.net.ssl.trustStore={store}"),
            *("-Djavax.net.ssl.trustStorePassword=changeit", *command[1:]),
        ]

    try:
        done = subprocess.run(
            command, cwd=program.folder, env=environment, capture_output=True, text=True,
            timeout=ENDS_S, check=False,
        )  # fmt: skip
    finally:
        file.unlink()

    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.splitlines() == ["order 1", "order 2", "left: 0"]
