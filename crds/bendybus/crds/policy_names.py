"""Names of shared access policies on a bus, for policies that have others where they come from.

In Azure, and for administration clients, a name is unique on its entity. In the manifest of a bus
all policies are in one list, and their names become those of Secrets.
"""

import re
from typing import Final

from bendybus.domain import limits

# The policy that every bus has, in lower case.
ROOT: Final = "rootmanagesharedaccesskey"
WHY: Final = "the policy is called {name}: on a bus a name is unique, of letters, digits and -."
TOO_MANY: Final = (
    f"is left out: a bus has at most {limits.AUTHORIZATION_RULES_MAX} policies. Administration "
    "clients make more, on an entity."
)
_CHARS_MAX: Final = 50


class PolicyNames:
    """Names of policies on one bus. `own`: those that they have elsewhere, if others, by ours."""

    def __init__(self) -> None:
        self.own: dict[str, str] = {}
        self._taken: set[str] = set()

    def unique(self, wanted: str, entity: str) -> str:
        """Return a name like the wanted one that no other policy has."""
        found = _plain(wanted)
        if found.lower() in self._taken or found.lower() == ROOT:
            found = _plain(f"{entity}-{wanted}")
        base, number = found, 2
        while found.lower() in self._taken:
            found = f"{base[: _CHARS_MAX - 4]}-{number}"
            number += 1
        self._taken.add(found.lower())
        if found != wanted:
            self.own[found] = wanted
        return found


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:_CHARS_MAX].strip("-") or "policy"
