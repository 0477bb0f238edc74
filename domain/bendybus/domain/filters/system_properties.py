"""System properties that filters may read and actions may set, by the names of Service Bus."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from bendybus.domain import limits
from bendybus.domain.filters.values import Kind


class Setting(Enum):
    """Whether an action may set a property."""

    NO = "no"
    YES = "yes"
    # A copy is made when the message activates: its time has come.
    IGNORED = "ignored"


class SystemProperty(NamedTuple):
    """One property. `name` is what a view is asked for."""

    name: str
    kind: Kind
    setting: Setting = Setting.NO
    # Of a text that an action sets.
    length_max: int = 0


_TEXT_MAX: Final = limits.PROPERTY_BYTES_MAX
_ALL: Final = (
    SystemProperty("MessageId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("SessionId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("PartitionKey", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("CorrelationId", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("Label", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("To", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("ReplyTo", Kind.TEXT, Setting.YES, _TEXT_MAX),
    SystemProperty("ReplyToSessionId", Kind.TEXT, Setting.YES, limits.KEY_CHARS_MAX),
    SystemProperty("ContentType", Kind.TEXT, Setting.YES, _TEXT_MAX),
    # A number of milliseconds.
    SystemProperty("TimeToLive", Kind.NUMBER, Setting.YES),
    SystemProperty("ScheduledEnqueueTimeUtc", Kind.TIMESTAMP, Setting.IGNORED),
    SystemProperty("EnqueuedTimeUtc", Kind.TIMESTAMP),
    SystemProperty("ExpiresAtUtc", Kind.TIMESTAMP),
    SystemProperty("SequenceNumber", Kind.NUMBER),
    SystemProperty("EnqueuedSequenceNumber", Kind.NUMBER),
    SystemProperty("DeliveryCount", Kind.NUMBER),
    SystemProperty("Size", Kind.NUMBER),
    SystemProperty("DeadLetterSource", Kind.TEXT),
)
# Newer names of the SDKs for the same properties.
_ALIASES: Final = {
    "Subject": "Label",
    "ScheduledEnqueueTime": "ScheduledEnqueueTimeUtc",
    "EnqueuedTime": "EnqueuedTimeUtc",
    "ExpiresAt": "ExpiresAtUtc",
}
ALL: Final[Mapping[str, SystemProperty]] = {each.name: each for each in _ALL}
_BY_FOLDED_NAME: Final[Mapping[str, SystemProperty]] = {
    **{name.lower(): found for name, found in ALL.items()},
    **{alias.lower(): ALL[name] for alias, name in _ALIASES.items()},
}
# These decide the partition of a message.
KEYS: Final = ("SessionId", "PartitionKey")


def find(name: str) -> SystemProperty | None:
    """Return the property of a name, in whatever case; None: there is none."""
    return _BY_FOLDED_NAME.get(name.lower())


def names(*, settable: bool = False) -> str:
    """Return the names, for a sentence."""
    return ", ".join(each.name for each in _ALL if not settable or each.setting is Setting.YES)
