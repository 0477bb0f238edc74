"""Config.json of the official emulator, as commands read it, and the report on what became of it.

The models are imported where a file is read, and only there, as for manifests.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bendybus.cli.bus.manifests import STDIN
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.crds.bundle import Bundle
from bendybus.domain import limits

if TYPE_CHECKING:
    from bendybus.crds.conversion import Conversion

# Where a container of the emulator has its file.
CONTAINER_PATH: Final = Path("/ServiceBus_Emulator/ConfigFiles/Config.json")
CONFIG: Final = "Config.json"
PARTITIONS_DEFAULT: Final = 1
_COUNTS: Final = ", ".join(map(str, limits.PREMIUM_PARTITION_COUNTS))


def check_premium(partition_count: int) -> None:
    """Raise UsageError unless a Premium bus can have so many partitions."""
    if partition_count not in limits.PREMIUM_PARTITION_COUNTS:
        raise UsageError(f"--premium: must be one of {_COUNTS} (got {partition_count}).")


def read(path: Path, *, partition_count: int = PARTITIONS_DEFAULT) -> "Conversion":
    """Return the manifests of a file. Raises CliError, or ManifestError with every problem."""
    from bendybus.crds import emulator_config

    if path == STDIN:
        data, source = sys.stdin.buffer.read(), "stdin"
    else:
        data, source = content(path), str(path)
    return emulator_config.parse(source, data, partition_count=partition_count)


def empty(partition_count: int = PARTITIONS_DEFAULT) -> Bundle:
    """Return the bus of an emulator without a file."""
    from bendybus.crds import emulator_config

    return emulator_config.empty(partition_count)


def say_report(conversion: "Conversion") -> None:
    """Print on stderr how many fields were taken, and what was not."""
    printing.note(conversion.summary())
    for remark in conversion.remarks():
        printing.note(remark)


def content(path: Path, name: str = CONFIG, *, most: int = -1) -> bytes:
    """Return the bytes of a file, or its first `most`; `name` is for its error. Raises CliError."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except IsADirectoryError as error:
        if name != CONFIG:
            raise CliError(f"{path} is a folder. Name a file in it.") from error
        raise CliError(
            f"{path} is a folder. A container engine makes one where the file to mount does not "
            "exist: check its path on the host."
        ) from error
    except PermissionError as error:
        raise CliError(
            f"{path}: permission denied. Make the file readable for all: chmod a+r."
        ) from error
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise CliError(f"{path}: {reason}. Check the path of {name}.") from error
