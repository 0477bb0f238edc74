"""Names of objects of Kubernetes, for entities that may be called otherwise. Pure."""

import re
from typing import Final

# As the API server takes them.
CHARS_MAX: Final = 253
_NONE: Final = "entity"


def object_name(name: str) -> str:
    """Return the nearest name that an object of Kubernetes can have, or "".

    It is a subdomain of DNS: parts of letters, digits and -, between dots.
    """
    text = re.sub(r"[^a-z0-9.-]", "-", name.lower())[:CHARS_MAX]
    return ".".join(part for each in text.split(".") if (part := each.strip("-")))


class UniqueNames:
    """Names that differ from each other: -2, -3 and so on is added to those that are taken.

    `most`: the number of characters of a name; `sign`: before the number.
    """

    def __init__(self, most: int = CHARS_MAX, sign: str = "-") -> None:
        self._most = most
        self._sign = sign
        self._taken: set[str] = set()
        # The last number, by the name that was wanted: many entities may want the same.
        self._last: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """Return a name that nobody else has."""
        base = wanted[: self._most]
        found, number = base, self._last.get(base, 1)
        while found in self._taken:
            number += 1
            end = f"{self._sign}{number}"
            found = base[: self._most - len(end)].rstrip(".-") + end
        self._taken.add(found)
        self._last[base] = number
        return found

    def of_object(self, wanted: str) -> str:
        """Return a name for an object of Kubernetes that nobody else has."""
        return self.unique(object_name(wanted) or _NONE)
