"""Every limit and default of Service Bus, in one table. Sizes in bytes, durations in ms.

Source: the quotas of Azure Service Bus, as its documentation and its SDKs state them. What is
not there but must have a bound as well has its own section at the end.
"""

from enum import StrEnum
from typing import Final


class Tier(StrEnum):
    """Messaging tier of a namespace."""

    BASIC = "Basic"
    STANDARD = "Standard"
    PREMIUM = "Premium"


KB: Final = 1024
MB: Final = 1024 * 1024
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
DAY_MS: Final = 24 * 60 * MINUTE_MS

# Partitions
STANDARD_PARTITION_COUNT: Final = 16
PREMIUM_PARTITION_COUNTS: Final = (1, 2, 4, 8, 16)
MIGRATED_PARTITION_COUNT: Final = 2  # of an entity of the earlier premium form

# Entities
ENTITIES_PER_NAMESPACE: Final = 10_000  # queues and topics
PARTITIONED_ENTITIES_PER_NAMESPACE: Final = 100  # Basic and Standard
SUBSCRIPTIONS_PER_TOPIC: Final = 2_000
TOPIC_TIERS: Final = (Tier.STANDARD, Tier.PREMIUM)
SESSION_TIERS: Final = (Tier.STANDARD, Tier.PREMIUM)
DUPLICATE_DETECTION_TIERS: Final = (Tier.STANDARD, Tier.PREMIUM)
FORWARDING_TIERS: Final = (Tier.STANDARD, Tier.PREMIUM)
ENTITY_NAME_CHARS_MAX: Final = 260
SUBSCRIPTION_NAME_CHARS_MAX: Final = 50
AUTHORIZATION_RULES_MAX: Final = (
    12  # of a namespace, beside RootManageSharedAccessKey; of an entity
)
AUTHORIZATION_NAME_CHARS_MAX: Final = 256  # of the name of a policy of an entity
AUTHORIZATION_KEY_CHARS_MAX: Final = 256  # of each of its two keys
ENTITY_PATH_CHARS_MAX: Final = 512  # a name, and what may follow it
USER_METADATA_CHARS_MAX: Final = 1_024
LOCK_DURATION_MS_MIN: Final = 5 * SECOND_MS
LOCK_DURATION_MS_MAX: Final = 5 * MINUTE_MS
LOCK_DURATION_MS_DEFAULT: Final = MINUTE_MS
MAX_DELIVERY_COUNT_DEFAULT: Final = 10
MAX_DELIVERY_COUNT_MAX: Final = 2**31 - 1
DUPLICATE_WINDOW_MS_MIN: Final = 20 * SECOND_MS
DUPLICATE_WINDOW_MS_MAX: Final = 7 * DAY_MS
DUPLICATE_WINDOW_MS_DEFAULT: Final = 10 * MINUTE_MS
FORWARD_HOPS_MAX: Final = 4  # a message that is forwarded once more is dead-lettered
AUTO_DELETE_ON_IDLE_MS_MIN: Final = 5 * MINUTE_MS
TIME_TO_LIVE_MS_MAX: Final = 922_337_203_685_477  # TimeSpan.MaxValue: as good as never
BASIC_TIME_TO_LIVE_MS_MAX: Final = 14 * DAY_MS
QUEUE_SIZES_MB: Final = (1024, 2048, 3072, 4096, 5120)  # Basic and Standard, per partition
QUEUE_SIZE_MB_DEFAULT: Final = 1024
PREMIUM_QUEUE_SIZES_MB: Final = (*QUEUE_SIZES_MB, 10_240, 20_480, 40_960, 81_920)
PREMIUM_QUEUE_SIZE_MB_MAX: Final = 81_920  # before 0.7 a Premium entity had any size

# Messages
STANDARD_MESSAGE_BYTES_MAX: Final = 256 * KB
PREMIUM_MESSAGE_BYTES_DEFAULT: Final = 1 * MB
PREMIUM_MESSAGE_KB_MIN: Final = 1_024
PREMIUM_MESSAGE_KB_MAX: Final = 102_400
PREMIUM_PARTITIONED_MESSAGE_BYTES_MAX: Final = 1 * MB
STANDARD_BATCH_BYTES_MAX: Final = 256 * KB
PREMIUM_BATCH_BYTES_MAX: Final = 1 * MB
KEY_CHARS_MAX: Final = 128  # MessageId, SessionId, PartitionKey
PROPERTY_BYTES_MAX: Final = 32 * KB
HEADER_BYTES_MAX: Final = 64 * KB
DEAD_LETTER_TEXT_CHARS_MAX: Final = 4_096
PEEK_BYTES_MAX: Final = 256 * KB
DELETE_MESSAGES_MAX: Final = 500
PREMIUM_DELETE_MESSAGES_MAX: Final = 4_000
RECEIVERS_PER_ENTITY: Final = 5_000
PREFETCH_MESSAGES_MAX: Final = 50_000  # of one receiver of the client

# Topics
SQL_FILTERS_PER_TOPIC: Final = 2_000
CORRELATION_FILTERS_PER_TOPIC: Final = 100_000  # with True and False filters
RULE_NAME_CHARS_MAX: Final = 50
SQL_TEXT_CHARS_MAX: Final = 1_024  # a SQL filter, or a SQL action
SQL_ACTION_STATEMENTS_MAX: Final = 32

# Time-outs
SEND_TIMEOUT_MS_DEFAULT: Final = 60 * SECOND_MS
TRANSACTION_MS_MAX: Final = 2 * MINUTE_MS  # from its first operation to its commit

# Our own bounds
FRAME_MESSAGES_MAX: Final = 5_000
FRAME_BYTES_MAX: Final = 2 * MB  # of messages in one frame, or one message that is larger
GRPC_FRAME_BYTES_MAX: Final = 110 * MB  # the largest message and what surrounds it
REQUEST_BYTES_MAX: Final = 4 * MB  # of a call that carries none
SMALL_GRPC_FRAME_BYTES_MAX: Final = (
    10 * MB
)  # a transaction that is collected again, and its columns
SUBSCRIPTIONS_PER_NAMESPACE: Final = 20_000
ENTRIES_A_COPY_MAX: Final = 500  # of the catalogue, in one call to a partition
LOCKS_PER_QUEUE: Final = 100_000  # in one partition
ABANDON_DELAY_MS_MAX: Final = 7 * 86_400_000
DELAYED_MESSAGES_MAX: Final = 50_000  # abandoned with a delay, in one partition
SETTLE_TOKENS_MAX: Final = 5_000  # of one frame of settlements
SETTLER_ID_BYTES_MAX: Final = 16
TRANSACTION_MESSAGES_MAX: Final = 100  # sent or settled
TRANSACTION_BYTES_MAX: Final = 8 * MB  # of messages sent, or one message that is larger
TRANSACTION_COPIES_MAX: Final = 20_000  # in subscriptions: all of it is one turn of a partition
TRANSACTION_ID_BYTES: Final = 16
TRANSFER_DESTINATIONS_MAX: Final = 1_000  # to which one entity sends in transactions
OPERATION_ID_BYTES_MAX: Final = 16
TOMBSTONES_MAX: Final = 20_000  # deleted names that are remembered, and a tenth more
SQL_NESTING_MAX: Final = 64  # operators inside operators; parentheses alone do not count
RULE_STEPS_MAX: Final = 20_000  # of a SQL filter or action for one message, about 1 µs each
LIKE_PATTERN_CHARS_MAX: Final = 1_024  # also of a pattern that is a property's value
RULE_VALUES_MAX: Final = 64  # parameters of a SQL text, properties of a correlation filter
RULE_VALUE_LENGTH_MAX: Final = 1_024  # characters or bytes, of each
RULE_PROPERTY_NAME_CHARS_MAX: Final = 1_024
SHARED_BODY_BYTES_MIN: Final = 64  # a smaller one is copied, which takes no more room
PUBLISHED_COPIES_MAX: Final = 100_000  # of one message or batch, in one partition
PUBLISHED_BYTES_MAX: Final = 256 * MB  # the same: what the copies take with their heads
ACTIONS_PER_TOPIC: Final = 2_000  # rules with one: each makes a copy with a head of its own
FORWARDED_COPIES_A_TURN: Final = 2_000  # at most one for each rule of the topic
COMPILED_TEXTS_MAX: Final = 4_096  # SQL filters, and as many actions, that a process keeps
RULES_PER_SUBSCRIPTION: Final = 2_000
RULE_CHARS_PER_SUBSCRIPTION: Final = 1_000_000  # in names, texts and values
RULES_PER_NAMESPACE: Final = 200_000
RULE_CHARS_PER_NAMESPACE: Final = 10_000_000  # every partition and front end has them in memory
CATALOGUE_PART_BYTES: Final = 16 * MB  # of one answer of many; one entry may be larger
FORWARD_REFUSED_MS: Final = MINUTE_MS  # until a message that its destination refuses is set aside
RANGE_ROWS_DEFAULT: Final = 1_000  # of a page that a data pipeline reads
RANGE_ROWS_MAX: Final = 5_000
DEFERRED_BYTES_MAX: Final = 64 * MB  # of one answer with deferred messages
RANGE_BYTES_MAX: Final = 1 * MB  # or one message that is larger
RANGE_SPAN: Final = 5_000  # numbers that one page looks through
RANGE_NUMBERS_MAX: Final = 1_000  # settled in one call
INCARNATION_CHARS_MAX: Final = 64
DRAIN_OWNER_CHARS_MAX: Final = 128
DRAIN_MS_MIN: Final = 5 * SECOND_MS
DRAIN_MS_MAX: Final = 10 * MINUTE_MS
FENCED_BYTES_MAX: Final = 1 * MB  # of messages in one call, or one message that is larger
FENCE_MARK_BYTES_MAX: Final = 64
FENCE_PRODUCER_BYTES: Final = 16
FENCE_MS: Final = 14 * DAY_MS  # how long a partition remembers how far a producer came
FENCES_MAX: Final = 100_000  # that a partition remembers
DELIVERY_COUNT_STORED_MAX: Final = 2**31 - 1


def message_bytes_default(tier: Tier) -> int:
    """Return the largest message of an entity that sets no limit of its own."""
    return PREMIUM_MESSAGE_BYTES_DEFAULT if tier is Tier.PREMIUM else STANDARD_MESSAGE_BYTES_MAX


def request_bytes_max(partition_count: int) -> int:
    """Return the largest request of a client, by the partitions of a namespace.

    Only where there is one, in Premium alone, may a message be larger than 1 MB.
    """
    return SMALL_GRPC_FRAME_BYTES_MAX if partition_count > 1 else GRPC_FRAME_BYTES_MAX


def converted_bytes_max(most: int) -> int:
    """Return the bytes that what has at most `most` in another protocol takes in the contract.

    A field of the contract has up to four times the bytes of one of AMQP: a tag and a length more.
    """
    return most + min(3 * most, 4 * MB)


def batch_bytes_max(tier: Tier) -> int:
    """Return the largest batch that is sent as one unit."""
    return PREMIUM_BATCH_BYTES_MAX if tier is Tier.PREMIUM else STANDARD_BATCH_BYTES_MAX


def delete_messages_max(tier: Tier) -> int:
    """Return how many messages one batch delete may take."""
    return PREMIUM_DELETE_MESSAGES_MAX if tier is Tier.PREMIUM else DELETE_MESSAGES_MAX
