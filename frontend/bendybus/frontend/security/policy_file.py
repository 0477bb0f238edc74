"""The file of access policies: read at start, and again when it changes; the last good one holds.

{"policies": [{"name": "app", "rights": ["Send"], "entity": "orders", "keys": ["…", "…"]}]}
"""

import json
import logging
from pathlib import Path
from typing import Final

from bendybus.domain import shared_access
from bendybus.domain.shared_access import Policies, Policy, Right

logger = logging.getLogger(__name__)
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
KEYS_MAX: Final = 2
_MEMBERS: Final = frozenset({"name", "rights", "entity", "keys"})


class PolicyFileError(Exception):
    """Raised when the file cannot be used; one sentence, without anything that may be a key."""


def read(path: Path) -> Policies:
    """Return the policies of a file. Raises PolicyFileError."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise _wrong(path, reason) from error
    if len(content) > FILE_BYTES_MAX:
        raise _wrong(path, f"is larger than {FILE_BYTES_MAX // 1024} KB")
    try:
        data = json.loads(content)
    except ValueError as error:
        # Not the parser's words: they quote the file.
        line = getattr(error, "lineno", 0)
        raise _wrong(path, f"must be valid JSON (line {line})") from None
    entries = data.get("policies") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries:
        raise _wrong(path, 'must have a list "policies" with at least one policy')
    policies = [_policy(path, index, entry) for index, entry in enumerate(entries)]
    seen: set[tuple[str, str]] = set()
    for policy in policies:
        key = (policy.name, policy.entity.lower())
        if key in seen:
            raise _wrong(path, f"policy {policy.name!r} is defined twice for the same entity")
        seen.add(key)
    return shared_access.group(policies)


def _policy(path: Path, index: int, entry: object) -> Policy:
    where = f"policies[{index}]"
    if not isinstance(entry, dict) or not set(entry) <= _MEMBERS:
        raise _wrong(path, f"{where} must be an object with name, rights, entity and keys")
    name, entity = entry.get("name"), entry.get("entity", "")
    if not isinstance(name, str) or not name:
        raise _wrong(path, f"{where}: name must be a string")
    if not isinstance(entity, str):
        raise _wrong(path, f"{where}: entity must be a string")
    keys = entry.get("keys")
    if (
        not isinstance(keys, list)
        or not 1 <= len(keys) <= KEYS_MAX
        or not all(isinstance(key, str) and key for key in keys)
    ):
        raise _wrong(path, f"{where}: keys must be a list of one or two strings")
    rights = entry.get("rights")
    known = [right.value for right in Right]
    if not isinstance(rights, list) or not rights or not all(r in known for r in rights):
        raise _wrong(path, f"{where}: rights must be a list of {', '.join(known)}")
    return Policy(name, frozenset(map(Right, rights)), entity, tuple(keys))


def _wrong(path: Path, why: str) -> PolicyFileError:
    return PolicyFileError(f"--access-policies {path}: {why}. See docs/reference/security.md.")


class PolicyFile:
    """The last valid policies of a file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises PolicyFileError."""
        self._path = path
        self._stamp = _stamp(path)
        self._said = ""
        self.policies = read(path)

    def changed(self) -> bool:
        """Read the file again if it changed; return whether there are other policies now."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        try:
            found = read(self._path)
        except PolicyFileError as error:
            # The stamp stays the old one, so that the next look tries again.
            if str(error) != self._said:
                self._said = str(error)
                logger.error(
                    "access policies: new file rejected: %s",
                    error,
                    extra={"action": "policies-refused"},
                )
            return False
        self._stamp, self._said = stamp, ""
        if found == self.policies:
            return False
        self.policies = found
        logger.info(
            "access policies: %d are in use",
            sum(map(len, found.values())),
            extra={"action": "policies-reloaded"},
        )
        return True


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0, 0)
    return (facts.st_mtime_ns, facts.st_ino, facts.st_size)
