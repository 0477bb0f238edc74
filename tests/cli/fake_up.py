"""`python -m tests.cli.fake_up DATA MANIFEST PORT [--json] [--three] [--amqp-port N] …`: a fake."""

import os
import sys
from pathlib import Path

from bendybus.cli.bus import manifests
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.commands import process_commands
from bendybus.cli.commands import run_command as command
from bendybus.cli.commands.process_commands import Listening
from bendybus.cli.local.programs import HOST as LOOPBACK
from bendybus.cli.local.programs import Programs
from bendybus.cli.output.printing import Output


def programs(behaviour: Path) -> Programs:
    def fake(role: str) -> list[str]:
        module = [sys.executable, "-m", "tests.cli.fake_process", role]
        return [*module, "--behaviour", str(behaviour)]

    return Programs(fake("partition-server"), fake("frontend"))


def _number(flags: list[str], name: str) -> int | None:
    return int(flags[flags.index(name) + 1]) if name in flags else None


def main() -> int:
    data, manifest, port, *flags = sys.argv[1:]
    host = flags[flags.index("--host") + 1] if "--host" in flags else LOOPBACK
    return command.guarded(
        lambda: process_commands.serve(
            manifests.load([Path(manifest)]),
            Choice("", None, dict(os.environ)),
            data=Path(data),
            listening=Listening(
                int(port),
                _number(flags, "--amqp-port"),
                _number(flags, "--http-port"),
                host,
                late="--late" in flags,
            ),
            sizes=process_commands.Sizes(2, 3 if "--three" in flags else 1),
            say_ready=process_commands.in_form(
                Output.JSON if "--json" in flags else Output.TABLE, host
            ),
            programs=programs(Path(data)),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
