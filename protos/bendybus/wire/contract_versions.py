"""The versions that work together: one number for each contract, and the refusal of others.

A contract is what two kinds of process say to each other. A version that changes a contract raises
its number by one, and works with the number before its own and with the one after it. Mostly that
is a minor version, so that a bus is upgraded, and goes back, by one minor version at a time.
0.13.2 raised it, too: entities that are made from then on have sequence numbers that 0.13.0 and
0.13.1 can read, and 0.12 cannot.

    caller       server       the caller's number is in       the server's number is in
    client       front end    the metadata of each stream     its initial metadata
    front end    partition    the metadata of each stream,    the answers to the watch
                              the request for the watch
    operator     partition    the request for the watch       the answers to the watch
    partition    registrar    the request for the watch       the answers to the watch

Both sides check the other's number when a stream opens: before it carries anything, and never for a
message. Unary calls are not checked: processes that make many of them also have a stream.

All that serves only the version before has its number in its name, such as `0_13`, or "Goes in
0.15" beside its field in the .proto files.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from bendybus.domain.errors import InvalidOperation

RELEASE: Final = "0.14.2"
# The first version that works with this one, and the last one before this.
OLDEST: Final = "0.13.0"
PREVIOUS: Final = "0.13.1"
_NAME: Final = "bendybus-contract"
_DIGITS_MAX: Final = 6
Metadata = Iterable[tuple[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract, and its number in this version."""

    caller: str
    server: str
    number: int

    @property
    def said(self) -> tuple[str, str]:
        """The metadata that tells the other side the number."""
        return _NAME, str(self.number)

    def check(self, number: int, *, peer: str, own: str) -> None:
        """Raise InvalidOperation unless this version works with a peer of that number.

        `peer` and `own` name the two processes in the error.
        """
        if abs(number - self.number) <= 1:
            return
        rule = "Only neighbouring versions work together"
        if number < self.number:
            raise InvalidOperation(
                f"{peer} runs a version of Bendybus before {OLDEST}, and {own} runs {RELEASE}. "
                f"{rule}: upgrade {peer} to {PREVIOUS} first."
            )
        raise InvalidOperation(
            f"{peer} uses version {number} of the contract between {self.caller} and "
            f"{self.server}, and {own}, which runs Bendybus {RELEASE}, uses version {self.number}. "
            f"{rule}: upgrade {own} first, to the next version."
        )

    def check_caller(self, metadata: Metadata) -> None:
        """Raise InvalidOperation unless the caller of a stream is served, by its metadata."""
        number = number_in(metadata)
        self.check(number, peer=f"this {self.caller}", own=f"the {self.server}")

    def check_server(self, metadata: Metadata) -> None:
        """Raise InvalidOperation unless this caller works with a server, by initial metadata."""
        number = number_in(metadata)
        self.check(number, peer=f"the {self.server}", own=f"this {self.caller}")

    def check_watched(self, number: int, partition: int) -> None:
        """Raise InvalidOperation unless this caller works with the partition that it watches."""
        self.check(number, peer=f"partition {partition}", own=f"this {self.caller}")


CLIENT: Final = Contract("client", "front end", 4)
FRONT_END: Final = Contract("front end", "partition", 4)
OPERATOR: Final = Contract("operator", "partition", 2)
PARTITION: Final = Contract("partition", "registrar", 4)


def number_in(metadata: Metadata) -> int:
    """Return the number that a peer says in metadata; 0: none."""
    # As pairs: gRPC's own type is a mapping of lists.
    text = dict(tuple(metadata or ())).get(_NAME)
    if not (isinstance(text, str) and text.isascii() and text.isdecimal()):
        return 0
    return int(text[: _DIGITS_MAX + 1])
