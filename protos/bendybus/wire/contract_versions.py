"""The versions that work together: one number for each contract, and the refusal of others.

A contract is what two kinds of process say to each other. A minor version that changes a contract
raises its number by one, and works with the number before its own and with the one after it. So a
bus is upgraded, and goes back, by one minor version at a time.

    caller       server       the caller's number is in       the server's number is in
    client       front end    the metadata of each stream     its initial metadata
    front end    partition    the metadata of each stream,    the answers to the watch
                              the request for the watch
    operator     partition    the request for the watch       the answers to the watch
    partition    registrar    the request for the watch       the answers to the watch

Both sides check the other's number when a stream opens: before it carries anything, and never for a
message. Unary calls are not checked: processes that make many of them also have a stream.

Version 0.11 says no number; it is recognised by other things that it says, which this version goes
on saying to it. All that serves only 0.11 has `0_11` in its name, or "Goes in 0.13" beside its
field in the .proto files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bendybus.domain import entity_settings
from bendybus.domain.errors import InvalidOperation

RELEASE: Final = "0.12"
PREVIOUS: Final = "0.11"
_NAME: Final = "bendybus-contract"
_DIGITS_MAX: Final = 6
# The number that 0.11 would say of each contract.
_OF_0_11: Final = 1
# The marks in metadata by which 0.11 is recognised, and that it looks for.
MERGED_0_11: Final = ("bendybus-merged-frames", "1")
HEADS_0_11: Final = ("bendybus-message-heads", "1")
MOVES_0_11: Final = ("bendybus-moves", "1")
# The fields of an answer to a watch by which 0.11 knows that a partition keeps all entities.
WATCHED_0_11: Final[Mapping[str, Any]] = {
    "kinds": (1, 2, 3),
    "knows_sessions": True,
    "knows_delays": True,
    "settings_version": entity_settings.VERSION,
}
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
        rule = "Versions work together only if they are at most one minor version apart"
        if number < self.number:
            raise InvalidOperation(
                f"{peer} runs a version of Bendybus before {PREVIOUS}, and {own} runs {RELEASE}. "
                f"{rule}: upgrade {peer} to {PREVIOUS} first."
            )
        raise InvalidOperation(
            f"{peer} uses version {number} of the contract between {self.caller} and "
            f"{self.server}, and {own}, which runs Bendybus {RELEASE}, uses version {self.number}. "
            f"{rule}: upgrade {own} first, by one minor version."
        )

    def check_caller(self, metadata: Metadata, *marks_0_11: tuple[str, str]) -> None:
        """Raise InvalidOperation unless the caller of a stream is served, by its metadata.

        `marks_0_11`: what a caller of 0.11 says on such a stream.
        """
        number = _said_in(metadata, marks_0_11)
        self.check(number, peer=f"this {self.caller}", own=f"the {self.server}")

    def check_server(self, metadata: Metadata) -> None:
        """Raise InvalidOperation unless this caller works with a server, by initial metadata."""
        number = _said_in(metadata, ())
        self.check(number, peer=f"the {self.server}", own=f"this {self.caller}")

    def check_watched(self, number: int, partition: int) -> None:
        """Raise InvalidOperation unless this caller works with the partition that it watches."""
        self.check(number, peer=f"partition {partition}", own=f"this {self.caller}")


CLIENT: Final = Contract("client", "front end", 2)
FRONT_END: Final = Contract("front end", "partition", 2)
OPERATOR: Final = Contract("operator", "partition", 2)
PARTITION: Final = Contract("partition", "registrar", 2)


def number_of(number: int, *, as_0_11: bool) -> int:
    """Return the number that a peer says, which is 0 if it says none.

    `as_0_11`: whether it says what 0.11 says.
    """
    return number or (_OF_0_11 if as_0_11 else 0)


def _said_in(metadata: Metadata, marks_0_11: Iterable[tuple[str, str]]) -> int:
    # As pairs: gRPC's own type is a mapping of lists.
    said = tuple(metadata or ())
    text = dict(said).get(_NAME)
    if text is None:
        return number_of(0, as_0_11=set(marks_0_11) <= set(said))
    # Whoever says something is not of 0.11, whatever it is.
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal()
    return int(text[: _DIGITS_MAX + 1]) if is_number else 0
