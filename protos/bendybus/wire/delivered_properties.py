"""The application properties of a message as a receiver gets them: the one place that merges them.

    what the sender wrote ◄── what receivers changed ◄── why it was dead-lettered

Filters and actions, receivers, peeks, exports and data pipelines read this and nothing else.
"""

from collections.abc import Mapping
from typing import Final

from bendybus.v1 import message_pb2

# Properties of a dead letter; text columns of the message as long as they are texts.
REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"


def merged(
    own: Mapping[str, message_pb2.Value],
    changed: bytes | None,
    reason: str | None = None,
    description: str | None = None,
) -> Mapping[str, message_pb2.Value]:
    """Return all properties by name; what is later in the picture above wins.

    `changed`: a serialised ValueMap. Raises DecodeError if it is none.
    """
    if not (changed or reason or description):
        return own
    entries = dict(own.items())
    if changed:
        entries.update(message_pb2.ValueMap.FromString(changed).entries.items())
    for name, text in ((REASON, reason), (DESCRIPTION, description)):
        if text:
            entries[name] = message_pb2.Value(string_value=text)
    return entries
