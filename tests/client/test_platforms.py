"""The client and the command line import where an operating system has less."""

import subprocess
import sys

# What Windows lacks, taken away before anything is imported.
WINDOWS = """
import os, signal, socket, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "pwd", "grp", "resource", "termios"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
for name in ("fork", "register_at_fork", "sched_getaffinity", "pread", "pwrite", "sysconf"):
    delattr(os, name)
for name in ("SIGHUP",):
    delattr(signal, name)
del socket.AF_UNIX
"""
# Only what our own modules ask: libraries have their own ways.
OURS = """
import subprocess, asyncio, rich, typer, yaml, pydantic, grpc, grpc.aio, uuid, tempfile, ssl
import concurrent.futures, multiprocessing, logging, random
import google.protobuf.json_format
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_imports_without_what_windows_lacks() -> None:
    run(OURS + WINDOWS + "import bendybus.client.aio.management")


def test_the_command_line_imports_without_what_windows_lacks() -> None:
    shown = run(
        OURS
        + WINDOWS
        + "from bendybus.cli import __main__ as c\n"
        + "from bendybus.cli.bus import messages, send_messages; sys.exit(c.main(['--help']))"
    )

    assert "receive" in shown


def test_a_bus_starts_with_as_many_processes_as_cores_where_affinity_is_not_known() -> None:
    shown = run(
        "import os; del os.sched_getaffinity\n"
        "from bendybus.cli.commands import process_commands; print(process_commands._cores())"
    )

    assert int(shown) >= 1
