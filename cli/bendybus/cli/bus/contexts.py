"""Named buses of a user, and the one in use: `bendybus context …`.

$XDG_CONFIG_HOME/bendybus/contexts.json (or ~/.config/…), readable by its owner alone, since
connection strings hold keys:

    {"current": "prod", "contexts": {"prod": {"connection_string": "Endpoint=…", "ca_file": "…"},
                                     "shop": {"kube_context": "…", "namespace": "…", "bus": "…"}}}

Changed under the lock contexts.lock beside it, one command after another.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from bendybus.cli.bus import file_lock
from bendybus.cli.errors import CliError, NotFound, UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


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


def path(environment: Mapping[str, str]) -> Path:
    """Return where the file is."""
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".config"
    return base / "bendybus" / "contexts.json"


def read(environment: Mapping[str, str]) -> Contexts:
    """Return what the file holds; nothing if there is none. Raises CliError for a broken one."""
    file = path(environment)
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


def change(environment: Mapping[str, str], to: Callable[[Contexts], Contexts]) -> None:
    """Replace what the file holds by what `to` makes of it; one process after another.

    Raises CliError, and what `to` raises.
    """
    lock = path(environment).with_suffix(".lock")
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock.held(lock):
            write(environment, to(read(environment)))
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


def write(environment: Mapping[str, str], contexts: Contexts) -> None:
    """Write the file in one step, readable by its owner alone. Raises CliError."""
    file = path(environment)
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
