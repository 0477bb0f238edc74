"""Message annotations of Service Bus, by name."""

from typing import Final

LOCK_TOKEN: Final = "x-opt-lock-token"
SEQUENCE_NUMBER: Final = "x-opt-sequence-number"
ENQUEUED_SEQUENCE_NUMBER: Final = "x-opt-enqueue-sequence-number"
ENQUEUED_TIME: Final = "x-opt-enqueued-time"
LOCKED_UNTIL: Final = "x-opt-locked-until"
PARTITION_ID: Final = "x-opt-partition-id"
MESSAGE_STATE: Final = "x-opt-message-state"
DEAD_LETTER_SOURCE: Final = "x-opt-deadletter-source"
PARTITION_KEY: Final = "x-opt-partition-key"
# The key that chooses the partition through which a message in a transaction goes.
VIA_PARTITION_KEY: Final = "x-opt-via-partition-key"
SCHEDULED_ENQUEUE_TIME: Final = "x-opt-scheduled-enqueue-time"

# Set by the bus only: dropped from what clients send, also if they send on a received message.
SET_BY_THE_BUS: Final = frozenset(
    (
        LOCK_TOKEN,
        SEQUENCE_NUMBER,
        ENQUEUED_SEQUENCE_NUMBER,
        ENQUEUED_TIME,
        LOCKED_UNTIL,
        PARTITION_ID,
        MESSAGE_STATE,
        DEAD_LETTER_SOURCE,
    )
)
# Stored in columns, not among the application's annotations.
IN_COLUMNS: Final = frozenset((PARTITION_KEY, SCHEDULED_ENQUEUE_TIME))
