"""The directory of a local bus: its lock, its identity, and its running processes.

DIR/lock             exclusive lock (flock) for the life of `bendybus up`; text: its pid
DIR/namespace.json   name, UID, tier, partition count, time: written once, never changed
DIR/run.json         what runs now (0600); removed on exit
DIR/tls/             the certificate of its shared port
DIR/logs/            stderr of each process
DIR/partition-NN.db  the partitions' own files; not touched here
"""

import json
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bendybus.cli.errors import CliError
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain import descriptions
from bendybus.domain.limits import Tier

try:
    import fcntl
except ModuleNotFoundError:  # Windows: a bus does not run there, all else does
    fcntl = None  # type: ignore[assignment]

RUN: Final = "run.json"
# The certificate of its shared port; see `certificate`.
TLS: Final = "tls"
CA_FILE: Final = f"{TLS}/ca.crt"
_NAMESPACE: Final = "namespace.json"
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a data directory is of."""

    namespace: NamespaceSettings
    uid: str
    # With its zone, as ISO 8601 has it.
    created_at: str


# The permissions on files of everybody but the user.
_FOR_OTHERS: Final = 0o077


def root(environment: Mapping[str, str]) -> Path:
    """Return the folder that holds the data directories of all local buses."""
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "share"
    return base / "bendybus"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the directory for oneself. Raises CliError that names who else does.

    Meanwhile what this process and those that it starts make is for their user alone: messages and
    logs are as private as keys.
    """
    if fcntl is None:
        raise CliError(
            "A bus runs on Linux and macOS only. Connect to one with --connection-string."
        )
    before = os.umask(_FOR_OTHERS)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):
            # One of a version that let others read it; it stays where it belongs to someone else,
            # or to everybody, such as /tmp.
            mode = stat.S_IMODE(directory.stat().st_mode)
            if not mode & stat.S_ISVTX:
                directory.chmod(mode & ~_FOR_OTHERS)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        os.umask(before)
        raise CliError(
            f"{directory}: {(error.strerror or 'cannot be used').lower()}. "
            "Choose another folder with --data."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise CliError(
                f"{directory} is in use by another bendybus up (pid {holder}). Stop it, or choose "
                "another folder with --data."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
        os.umask(before)


def is_held(directory: Path) -> bool:
    """Return whether some `bendybus up` holds the directory."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def identify(directory: Path, wanted: NamespaceSettings) -> Identity:
    """Return what the directory is of; a new one becomes that of `wanted`, with a new UID.

    Raises PartitioningImmutable when tier or partition count differ, CliError when the name does.
    """
    path = directory / _NAMESPACE
    if not path.exists():
        now = datetime.now(UTC).isoformat(timespec="seconds")
        identity = Identity(wanted, str(uuid.uuid4()), now)
        _write(path, _to_json(identity))
        return identity
    identity = _identity(path)
    if identity.namespace.name != wanted.name:
        raise CliError(
            f"{directory} holds BusNamespace {identity.namespace.name!r}, not {wanted.name!r}. "
            "Choose another folder with --data."
        )
    descriptions.check_namespace_unchanged(
        wanted.name,
        tier=identity.namespace.tier,
        partition_count=identity.namespace.partition_count,
        wanted_tier=wanted.tier,
        wanted_count=wanted.partition_count,
    )
    return identity


def _identity(path: Path) -> Identity:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        namespace = NamespaceSettings(
            value["name"], Tier(value["tier"]), int(value["partition_count"])
        )
        # 0.10 did not write the time, but wrote the file then.
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        return Identity(namespace, str(value["uid"]), str(value.get("created_at") or written))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(
            f"{path} cannot be read ({error}). Restore it from a backup: it says to which bus the "
            "partitions' files belong."
        ) from error


def _to_json(identity: Identity) -> dict[str, Any]:
    return {
        "name": identity.namespace.name,
        "uid": identity.uid,
        "tier": identity.namespace.tier.value,
        "partition_count": identity.namespace.partition_count,
        "created_at": identity.created_at,
    }


def write_run(directory: Path, facts: Mapping[str, Any]) -> None:
    """Write what runs now, readable by its owner only."""
    _write(directory / RUN, facts)


def remove_run(directory: Path) -> None:
    """Remove what ran."""
    (directory / RUN).unlink(missing_ok=True)


def read_run(directory: Path) -> dict[str, Any] | None:
    """Return what runs there, or None if nothing does (a file left behind counts as nothing)."""
    if not is_held(directory):
        return None
    try:
        facts: dict[str, Any] = json.loads((directory / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts


def running(folder: Path) -> list[dict[str, Any]]:
    """Return what runs in the data directories below `folder`."""
    found = (read_run(path.parent) for path in sorted(folder.glob(f"*/{RUN}")))
    return [facts for facts in found if facts is not None]


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON in one step, durably: a reader sees the old file or the new one."""
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CliError(f"{path}: {(error.strerror or 'not written').lower()}.") from error
