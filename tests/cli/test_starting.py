"""The way into the command line, before any command runs."""

import subprocess
import sys

# Stands for Ctrl-C at that moment: an import in the middle of the start.
INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from bendybus.cli.__main__ import main
sys.exit(main(["get", "queues"]))
"""


def test_an_interruption_while_the_program_is_still_loading_is_no_traceback() -> None:
    for module in ("typer", "grpc", "bendybus.cli.commands.run_command"):
        found = subprocess.run(
            [sys.executable, "-c", INTERRUPTED.format(module=module)],
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert (found.returncode, found.stdout) == (130, ""), module
        assert found.stderr == "bendybus: Interrupted.\n"


def test_commands_do_not_load_the_models_of_manifests_before_they_read_one() -> None:
    # They take a quarter of a second, more than most commands.
    program = "import sys, bendybus.cli.commands.run_command; print('pydantic' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )

    assert found.stdout == "False\n", found.stderr


def test_a_bus_that_is_down_is_one_sentence() -> None:
    bus = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=s"
    found = subprocess.run(
        [
            *(sys.executable, "-m", "bendybus.cli", "--connection-string"),
            *(f"{bus};UseDevelopmentEmulator=true", "send", "q", "x"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (found.returncode, found.stdout) == (4, "")
    assert found.stderr.startswith("bendybus: No bus answers at 127.0.0.1:1.")
    assert found.stderr.count("\n") == 1
