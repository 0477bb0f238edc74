"""How a bus moves from one root certificate to another. Deterministic; the time is passed in.

The move takes steps, each at least a day apart (`HANDOVER`) and only once its precondition holds,
so that no process ever receives a certificate that it does not trust:

    trusted   the new root is trusted beside the former; certificates stay as they are
    signing   certificates are signed by the new root; the former is still trusted
    done      the former root is no longer trusted

Used with the operator's own authority for the bus and with cert-manager alike.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bendybus.operator.certificates import bundles
from bendybus.operator.certificates.certificate_authority import HANDOVER, end_of

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class RootRotation:
    """How far a bus has moved to its root.

    `since`: when the step began; `former`: what was trusted before, PEM, "" when the move is done;
    `signs`: whether certificates are signed by the new root.
    """

    since: dt.datetime
    former: str = ""
    signs: bool = True

    @classmethod
    def begin(cls, former: str, root: str, now: dt.datetime) -> "RootRotation":
        """Return the first step to `root`. `former`: what is trusted now, "" for a new bus."""
        rest = bundles.without(former, root)
        return cls(now, rest, signs=not rest)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "RootRotation":
        """Return what a Secret's files hold. Raises KeyError, ValueError."""
        since = dt.datetime.strptime(files["since"], _TIME).replace(tzinfo=dt.UTC)
        return cls(since, bundles.joined(files["former.crt"]), files["signs"] == "yes")

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        return {
            "since": self.since.strftime(_TIME),
            "former.crt": self.former,
            "signs": "yes" if self.signs else "no",
        }

    def advanced(
        self, now: dt.datetime, *, trusted: bool, issued: bool, expiring: bool = False
    ) -> "RootRotation":
        """Return the next step if it is due, else itself.

        `trusted`: all processes trust the new root; `issued`: all certificates are signed by it;
        `expiring`: a certificate by the former root expires too soon to wait for `trusted`.
        """
        # If the clock was set back, the step takes longer.
        waited = now - self.since >= HANDOVER
        if self.former and not self.signs and (expiring or (trusted and waited)):
            return replace(self, signs=True, since=now)
        if self.former and self.signs and issued and waited:
            return replace(self, former="", since=now)
        return self


def outlasts_rotation(pem: str, now: dt.datetime) -> bool:
    """Whether a certificate is valid until a rotation that begins now is done."""
    return end_of(pem) - now > 2 * HANDOVER
