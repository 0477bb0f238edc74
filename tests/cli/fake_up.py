"""`python -m tests.cli.fake_up DATA MANIFEST PORT [--json] [--three] [--amqp-port N]`: a fake."""

import os
import sys
from pathlib import Path

from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.commands import process_commands
from bendybus.cli.commands import run_command as command
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
    return command.guarded(
        lambda: process_commands.run_up(
            [Path(manifest)],
            Choice("", None, dict(os.environ)),
            data=Path(data),
            port=int(port),
            amqp_port=_number(flags, "--amqp-port"),
            sizes=process_commands.Sizes(2, 3 if "--three" in flags else 1),
            output=Output.JSON if "--json" in flags else Output.TABLE,
            programs=programs(Path(data)),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
