"""`bendybus emulator` as a process, with what a test of its own needs: ports, file, output."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusClient

from bendybus.cli.commands.emulator_command import READY_LINE
from tests.ports import HOST, free_port

# Far more than any machine needs: it ends a test that would wait for ever.
WITHIN_S: Final = 60.0
COMMAND: Final = (sys.executable, "-m", "bendybus.cli", "emulator")


class Emulator:
    """A running one. `config`: what its Config.json says; None: it has none."""

    def __init__(
        self,
        folder: Path,
        config: Any = None,
        *,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.amqp_port, self.http_port = free_port(), free_port()
        given = [*command, "--data", str(folder / "data"), "--port", str(free_port())]
        given += ["--amqp-port", str(self.amqp_port), *options]
        if config is not None:
            (folder / "Config.json").write_text(json.dumps(config), encoding="utf-8")
            given += ["--config", str(folder / "Config.json")]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            given,
            env={
                **os.environ,
                "EMULATOR_HTTP_PORT": str(self.http_port),
                **(environment or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1] == READY_LINE:
                self._ready.set()

    @property
    def output(self) -> str:
        """What it printed so far."""
        return "\n".join(self.lines)

    def wait_ready(self) -> float:
        """Wait for the ready line; return the seconds since the start."""
        deadline = time.monotonic() + WITHIN_S
        while not self._ready.wait(0.01):
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise AssertionError(self.output)
        return time.monotonic() - self.started

    def wait_healthy(self) -> float:
        """Wait until /health answers 200, as Testcontainers do; return the seconds."""
        deadline = time.monotonic() + WITHIN_S
        while self.health()[0] != 200:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self.output)
            time.sleep(0.01)
        return time.monotonic() - self.started

    def health(self) -> tuple[int, Any]:
        """Return status and body of /health; (0, None): nothing answers."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.http_port}/health", timeout=5) as got:
                return got.status, json.load(got)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    @property
    def connection_string(self) -> str:
        """What the emulator's documentation says, with the port of this one."""
        return (
            f"Endpoint=sb://localhost:{self.amqp_port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )

    def sdk(self) -> ServiceBusClient:
        """Return a client of azure-servicebus."""
        return ServiceBusClient.from_connection_string(self.connection_string)

    def stop(self) -> int:
        """End it as a container engine does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        return code

    def kill(self) -> None:
        """End it, whatever state it is in."""
        self.process.kill()
        self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
