"""A program that passes a type checker with azure-servicebus passes it with this client."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client import typed_program

PROGRAM = Path(typed_program.__file__).read_text()


@pytest.mark.requirement("R323")
@pytest.mark.parametrize("library", ["azure.servicebus", "bendybus.client"])
def test_the_types_of_the_client_are_those_of_azure_servicebus(
    tmp_path: Path, library: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("bendybus.client", library))
    # Checked as a user's program is: without this project's settings.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(file)]

    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
