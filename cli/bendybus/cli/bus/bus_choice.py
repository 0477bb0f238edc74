"""Which bus a command addresses: the first of these that is set.

    1. the command line: --connection-string, --data, or --kube and its like
    2. the environment: BENDYBUS_CONNECTION_STRING
    3. the context in use (`bendybus context use NAME`)
    4. the bus that runs on this machine (run.json)

And whom it trusts: --ca-file, then BENDYBUS_CA_FILE, then the context's; on a cluster, what the
bus's Secret says. Commands about this machine's own processes know no context.
"""

import errno
import importlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from bendybus.cli import endpoint
from bendybus.cli.bus import cluster
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.errors import CliError, NotFound, Unreachable, UsageError
from bendybus.cli.local import data_directory

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

VARIABLE: Final = "BENDYBUS_CONNECTION_STRING"
CA_FILE_VARIABLE: Final = "BENDYBUS_CA_FILE"
_START: Final = "Start one with bendybus up, or name one with --connection-string."
_ELSEWHERE: Final = "For a bus that was started with --data DIR: bendybus --data DIR …"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
WAIT_S: Final = 5.0
_LOOK_S: Final = 0.02
_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})
# Of file systems without locks: changes at the same moment are not kept apart there.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user said, before any command."""

    connection_string: str
    data: Path | None
    environment: Mapping[str, str]
    ca_file: Path | None = None
    cluster: ClusterChoice | None = None
    # Whether it is the context in use that named the bus.
    by_context: bool = False

    @property
    def names_a_bus(self) -> bool:
        """Whether the command line or the environment names one."""
        named = self.connection_string or self.data or self.environment.get(VARIABLE)
        return bool(named) or self.cluster is not None


@dataclass(frozen=True, slots=True)
class Target:
    """A bus that can be connected to."""

    connection_string: str
    ca_file: Path | None

    @property
    def address(self) -> str:
        """Return its endpoint. Raises UsageError for an invalid connection string."""
        return endpoint.parse(self.connection_string).address

    @property
    def use_tls(self) -> bool:
        """Return whether it is talked to over TLS."""
        return not endpoint.parse(self.connection_string).plain

    def __repr__(self) -> str:
        return "Target(…)"


def with_context(choice: Choice) -> Choice:
    """Return the choice with the context in use, where nothing else names a bus."""
    context = None if choice.names_a_bus else read_contexts(choice.environment).in_use()
    if context is None:
        return choice
    on_cluster = context.kube or context.kube_context or context.namespace or context.bus
    file = ca_file(choice) or (Path(context.ca_file) if context.ca_file else None)
    return replace(
        choice,
        connection_string=context.connection_string,
        ca_file=file,
        cluster=ClusterChoice(context.kube_context, context.namespace, context.bus)
        if on_cluster
        else None,
        by_context=True,
    )


@contextmanager
def target(choice: Choice) -> Iterator[Target]:
    """Yield the bus; a port-forward to a cluster stays open for the block. Raises CliError."""
    if choice.cluster is None or choice.connection_string:
        yield Target(connection_string(choice), ca_file(choice))
        return
    with cluster.reached(choice.cluster, choice.environment) as (where, trusted):
        yield Target(where, ca_file(choice) if choice.ca_file else trusted)


def refuse_cluster(choice: Choice, what: str, instead: str) -> None:
    """Raise UsageError if a cluster was named for what only a bus on this machine has."""
    if choice.cluster is not None and not choice.by_context:
        raise UsageError(f"{what} is for a bus on this machine. On a cluster: {instead}")


def connection_string(choice: Choice) -> str:
    """Return the connection string of the bus. Raises Unreachable when there is none."""
    return named_connection_string(choice) or str(local_bus(choice)["connection_string"])


def named_connection_string(choice: Choice) -> str:
    """Return the connection string that the user gives; "": the bus is on this machine."""
    return choice.connection_string or ("" if choice.data else choice.environment.get(VARIABLE, ""))


def data_folder(text: str) -> Path:
    """Return the folder that --data names. Raises UsageError: an empty name is none."""
    if not text:
        raise UsageError("--data: must name a folder (got '').")
    return Path(text)


def ca_file(choice: Choice) -> Path | None:
    """Return the file of the authorities to trust; None: those that everybody trusts."""
    named = choice.environment.get(CA_FILE_VARIABLE)
    return choice.ca_file or (Path(named) if named else None)


def local_bus(choice: Choice) -> dict[str, Any]:
    """Return run.json of the local bus. Raises Unreachable unless there is exactly one."""
    if choice.data is not None:
        facts = data_directory.read_run(choice.data)
        if facts is None:
            raise Unreachable(f"No bus runs on {choice.data}. {_START}")
        return facts
    root = data_directory.root(choice.environment)
    found = data_directory.running(root)
    if not found:
        raise Unreachable(f"No bus runs in {root}. {_START} {_ELSEWHERE}")
    if len(found) > 1:
        folders = ", ".join(str(facts["data"]) for facts in found)
        raise Unreachable(
            f"Several buses run on this machine: {folders}. Choose one with --data DIR."
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class Context:
    """One bus: by its connection string, or on a cluster. "" where nothing is said."""

    connection_string: str = field(default="", repr=False)
    ca_file: str = ""
    kube: bool = False
    kube_context: str = ""
    namespace: str = ""
    bus: str = ""


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the file holds. `current`: the name of the context in use, or ""."""

    current: str = ""
    named: Mapping[str, Context] = field(default_factory=dict)

    def in_use(self) -> Context | None:
        """Return the context in use, if there is one."""
        return self.named.get(self.current)

    def add(self, name: str, context: Context) -> "Contexts":
        """Return them with another one. Raises UsageError for a name that is invalid or taken."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"context: a name has letters, digits, '.', '_' and '-' only (got {name!r})."
            )
        if name in self.named:
            raise UsageError(
                f"Context {name!r} already exists. Remove it with bendybus context remove {name}."
            )
        return Contexts(self.current, {**self.named, name: context})

    def use(self, name: str) -> "Contexts":
        """Return them with another one in use; "" for none. Raises NotFound."""
        if name:
            self._check(name)
        return Contexts(name, self.named)

    def remove(self, name: str) -> "Contexts":
        """Return them without one. Raises NotFound."""
        self._check(name)
        kept = {each: context for each, context in self.named.items() if each != name}
        return Contexts("" if self.current == name else self.current, kept)

    def _check(self, name: str) -> None:
        if name not in self.named:
            raise NotFound(
                f"Context {name!r} does not exist. bendybus context list shows them; bendybus "
                f"context add {name} adds it."
            )


def _contexts_path(environment: Mapping[str, str]) -> Path:
    """Return where the file is."""
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".config"
    return base / "bendybus" / "contexts.json"


def read_contexts(environment: Mapping[str, str]) -> Contexts:
    """Return what the file holds; nothing if there is none. Raises CliError for a broken one."""
    file = _contexts_path(environment)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        named = {str(name): _context(each) for name, each in value["contexts"].items()}
        current = value["current"]
        if current != "" and current not in named:
            # To go on would be to use another bus than the one that was chosen.
            raise ValueError(current)
        return Contexts(current, named)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise CliError(f"{file}: {(error.strerror or 'cannot be read').lower()}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CliError(
            f"{file} is not a file of contexts. Correct it, or delete it and add them again."
        ) from error


def change_contexts(environment: Mapping[str, str], to: Callable[[Contexts], Contexts]) -> None:
    """Replace what the file holds by what `to` makes of it; one process after another.

    Raises CliError, and what `to` raises.
    """
    lock = _contexts_path(environment).with_suffix(".lock")
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_held(lock):
            write_contexts(environment, to(read_contexts(environment)))
    except OSError as error:
        raise CliError(f"{lock}: {(error.strerror or 'cannot be locked').lower()}.") from error


def _context(value: Mapping[str, Any]) -> Context:
    """Return a context of the file. Raises TypeError for what it cannot have."""
    made = Context(**value)
    for each in fields(made):
        if type(getattr(made, each.name)) is not type(each.default):
            raise TypeError(each.name)
    if made == Context(ca_file=made.ca_file):
        raise ValueError("it names no bus")
    return made


def write_contexts(environment: Mapping[str, str], contexts: Contexts) -> None:
    """Write the file in one step, readable by its owner alone. Raises CliError."""
    file = _contexts_path(environment)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    value = {
        "current": contexts.current,
        "contexts": {name: asdict(each) for name, each in sorted(contexts.named.items())},
    }
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file that was left behind may have another mode.
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as out:
            json.dump(value, out, indent=2)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except OSError as error:
        raise CliError(f"{file}: {(error.strerror or 'not written').lower()}.") from error
    finally:
        if temporary.exists():
            temporary.unlink()


@contextmanager
def file_held(path: Path, within_s: float | None = None) -> Iterator[None]:
    """Hold the lock file, which stays. Raises TimeoutError if another process does for so long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until_s = time.monotonic() + (WAIT_S if within_s is None else within_s)
        while not _taken(descriptor):
            if time.monotonic() >= until_s:
                raise TimeoutError(errno.ETIMEDOUT, "in use by another process", str(path))
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Take the lock; return whether it is this process's now."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            system = _windows()
            system.locking(descriptor, system.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def _release(descriptor: int) -> None:
    """Give the lock back; on POSIX the end of the descriptor does that."""
    if fcntl is None:
        system = _windows()
        with suppress(OSError):
            system.locking(descriptor, system.LK_UNLCK, 1)


def _windows() -> Any:
    return importlib.import_module("msvcrt")
