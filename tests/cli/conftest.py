"""A kubectl for tests of the CLI on a cluster."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli import fake_kubectl, fake_management
from tests.cli.fake_management import FakeManagement


@dataclass(frozen=True, slots=True)
class FakeKubectl:
    """The program on the PATH, and the folder that it is told by."""

    folder: Path

    def answers(self, **given: Any) -> None:
        """Say what it answers; keys are arguments with _ for a blank."""
        found = {key.replace("_", " "): value for key, value in given.items()}
        (self.folder / "answers.json").write_text(json.dumps(found), encoding="utf-8")

    def calls(self) -> list[dict[str, Any]]:
        """Return what it was called with, and its process ids."""
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    folder = tmp_path / "kubectl"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_kubectl.__file__}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("FAKE_KUBECTL", str(folder))
    return FakeKubectl(folder)


@pytest.fixture
def bus() -> Iterator[FakeManagement]:
    fake = FakeManagement(unreached=(15,))  # type: ignore[abstract]
    server, address = fake_management.serve(fake)
    fake.address = address
    yield fake
    server.stop(None).wait(5)
