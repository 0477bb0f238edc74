"""A process that does with Azure.Messaging.ServiceBus what it is asked: one JSON object a line.

The program and the SDK for .NET that builds it come from the folder that BENDYBUS_DOTNET names,
else from ../shared/dotnet; its README lists the operations.
"""

import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Building the program takes 15 s the first time.
ANSWER_S: Final = 180.0


def tools() -> Path:
    """Return the folder that holds the commands `dotnet` and `driver`."""
    return Path(os.environ.get("BENDYBUS_DOTNET") or REPOSITORY.parent / "shared/dotnet").resolve()


def dotnet() -> str | None:
    """Return the command `dotnet`: the machine's own, else that of the tools; None: neither."""
    own = shutil.which("dotnet", path=str(tools()))
    return shutil.which("dotnet") or own


class SdkError(Exception):
    """Raised when an operation failed in the SDK.

    `kind`: the class of its exception. `reason`: its ServiceBusFailureReason. `status`: of HTTP.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('type')} {error.get('reason')}: {error.get('message')}")
        self.kind: str = error.get("type") or ""
        self.reason: str = error.get("reason") or ""
        self.status: int | None = error.get("status")
        self.message: str = error.get("message") or ""


class Driver:
    """The process. Operations are done one after another, unless `start` begins them."""

    def __init__(self, **environment: str) -> None:
        program = tools() / "driver"
        self._process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
        )
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read, name="dotnet", daemon=True)
        self._reader.start()

    def call(self, operation: str, **fields: Any) -> Any:
        """Do an operation and return its result. Raises SdkError."""
        return self._send(operation, fields).result(ANSWER_S)

    def start(self, operation: str, **fields: Any) -> "Future[Any]":
        """Start an operation; the next one does not wait for it."""
        return self._send(operation, {**fields, "sync": False})

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        self._process.stdin.close()
        self._process.stdout.close()

    def _send(self, operation: str, fields: Mapping[str, Any]) -> "Future[Any]":
        assert self._process.stdin is not None
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        self._process.stdin.write(json.dumps({"id": number, "op": operation, **fields}) + "\n")
        self._process.stdin.flush()
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                # Output of a build.
                continue
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"])
            if answer["ok"]:
                waiting.set_result(answer.get("result"))
            else:
                waiting.set_exception(SdkError(answer["error"]))
        for waiting in list(self._waiting.values()):
            waiting.set_exception(EOFError("the program ended"))
