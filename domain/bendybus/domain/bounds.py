"""The bounds of every number and text that enters the bus, in one place.

Checked where a request enters (front end) and again where it is stored (partition), so that no
value can be kept that something later cannot compute with, write or read. Times are ms since
1970, durations ms. Columns are checked whole, in a few comparisons, and one by one only when
something is wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from bendybus.domain import limits, lock_token
from bendybus.domain.errors import BusError, InvalidArgument

# The last ms of the year 9999: what every language's calendar ends with.
TIME_MS_MAX: Final = 253_402_300_799_999
# Signed 64 bits: what a file, and a language without larger numbers, can hold.
NUMBER_MAX: Final = 2**63 - 1
PRODUCER_ID_BYTES_MAX: Final = 64
UID_CHARS_MAX: Final = 256
INCARNATION_BYTES_MAX: Final = 64
NUMBERS_A_CALL_MAX: Final = limits.FRAME_MESSAGES_MAX
TOKENS_A_FRAME_MAX: Final = limits.SETTLE_TOKENS_MAX
UIDS_A_CALL_MAX: Final = limits.ENTITIES_PER_NAMESPACE
ASK_MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 2**40
# Errors of one frame's messages that name the value. The bound keeps the answer to a frame of
# thousands of them from taking more time than all that others send meanwhile.
FAULTS_SPELT_OUT: Final = 16

Column = Sequence[int]
Texts = Sequence[str]


def end_of_life(now_ms: int, time_to_live_ms: int) -> int | None:
    """Return when a message that is accepted now expires; None: never."""
    return min(now_ms + time_to_live_ms, TIME_MS_MAX) if time_to_live_ms else None


def check_number(field: str, value: int, most: int, least: int = 0) -> None:
    """Raise InvalidArgument unless `value` is `least` to `most`."""
    if not least <= value <= most:
        raise InvalidArgument(field, f"must be {least} to {most} (got {value}).")


def check_count(field: str, count: int, most: int) -> None:
    """Raise InvalidArgument unless a request has 1 to `most` elements; before they are walked."""
    if not 0 < count <= most:
        raise InvalidArgument(field, f"must be 1 to {most} of them (got {count}).")


def check_path(entity_path: str) -> None:
    """Raise InvalidArgument for a path that is longer than any; the error does not repeat it."""
    if len(entity_path) > limits.ENTITY_PATH_CHARS_MAX:
        raise InvalidArgument(
            "entity_path",
            f"must be at most {limits.ENTITY_PATH_CHARS_MAX} characters (got {len(entity_path)}).",
        )


def check_text(field: str, text: str, most: int) -> None:
    """Raise InvalidArgument for a text that is too long or has a NUL in it."""
    if len(text) > most:
        raise InvalidArgument(field, f"must be at most {most} characters (got {len(text)}).")
    if "\0" in text:
        raise InvalidArgument(field, "must not contain the character NUL (U+0000).")


def check_numbers(field: str, values: Sequence[int], count_max: int = NUMBERS_A_CALL_MAX) -> None:
    """Raise InvalidArgument unless `values` are sequence numbers that one call may name."""
    if not 0 < len(values) <= count_max:
        raise InvalidArgument(field, f"must be 1 to {count_max} numbers (got {len(values)}).")
    check_number(field, min(values), NUMBER_MAX)
    check_number(field, max(values), NUMBER_MAX)


def check_tokens(tokens: bytes) -> None:
    """Raise InvalidArgument unless `tokens` are the lock tokens of one frame."""
    count, rest = divmod(len(tokens), lock_token.TOKEN_BYTES)
    if rest or not 0 < count <= TOKENS_A_FRAME_MAX:
        raise InvalidArgument(
            "lock_tokens",
            f"must be 1 to {TOKENS_A_FRAME_MAX} tokens of {lock_token.TOKEN_BYTES} bytes each "
            f"(got {len(tokens)} bytes).",
        )


def check_session_token(token: bytes) -> None:
    """Raise InvalidArgument unless `token` has the form of a session's token."""
    if len(token) != lock_token.TOKEN_BYTES:
        raise InvalidArgument(
            "session_token", f"must be {lock_token.TOKEN_BYTES} bytes (got {len(token)})."
        )


def check_settlement(
    tokens: bytes, changed_bytes: int, reason: str, error_description: str
) -> None:
    """Raise InvalidArgument for what cannot settle messages."""
    check_tokens(tokens)
    if changed_bytes > limits.HEADER_BYTES_MAX:
        raise InvalidArgument(
            "changed_properties",
            f"must be at most {limits.HEADER_BYTES_MAX} bytes (got {changed_bytes}).",
        )
    count = len(tokens) // lock_token.TOKEN_BYTES
    if count > 1 and count * changed_bytes > limits.FRAME_BYTES_MAX:
        # Each message gets its own copy: without this bound, a small frame would write gigabytes.
        raise InvalidArgument(
            "changed_properties",
            f"{changed_bytes} bytes for each of {count} messages are more than the "
            f"{limits.FRAME_BYTES_MAX} that one call may add. Settle fewer messages at a time.",
        )
    for field, text in (
        ("dead_letter_reason", reason),
        ("dead_letter_error_description", error_description),
    ):
        if len(text) > limits.DEAD_LETTER_TEXT_CHARS_MAX:
            raise InvalidArgument(
                field,
                f"must be at most {limits.DEAD_LETTER_TEXT_CHARS_MAX} characters "
                f"(got {len(text)}).",
            )


def check_producer(producer_id: bytes, sequence: int, age_ms: int, deadline_ms: int) -> None:
    """Raise InvalidArgument for what cannot name a part of a producer's frame."""
    if len(producer_id) > PRODUCER_ID_BYTES_MAX:
        raise InvalidArgument(
            "producer_id",
            f"must be at most {PRODUCER_ID_BYTES_MAX} bytes (got {len(producer_id)}).",
        )
    check_number("producer_sequence", sequence, NUMBER_MAX)
    check_number("age_ms", age_ms, TIME_MS_MAX)
    check_number("deadline", deadline_ms, NUMBER_MAX)


def messages_fit(
    message_ids: Texts, partition_keys: Texts, session_ids: Texts, lives: Column, due: Column
) -> bool:
    """Whether all messages of a frame are within their bounds; a column is empty or whole."""
    for column in (message_ids, partition_keys, session_ids):
        if not column:
            continue
        # Each access to a protobuf column creates new strings, so it is read only once.
        texts = list(column)
        # One text is searched faster than thousands are.
        if max(map(len, texts)) > limits.KEY_CHARS_MAX or "\0" in "".join(texts):
            return False
    if lives and not (min(lives) >= 0 and max(lives) <= limits.TIME_TO_LIVE_MS_MAX):
        return False
    return not due or (min(due) >= 0 and max(due) <= TIME_MS_MAX)


def message_faults(
    message_ids: Texts, partition_keys: Texts, session_ids: Texts, lives: Column, due: Column
) -> Iterator[tuple[int, BusError]]:
    """Yield (index, why) of messages that are out of bounds, in their order.

    The first FAULTS_SPELT_OUT errors have the value; all others of a field are one error.
    """
    longest = limits.KEY_CHARS_MAX
    texts = ("MessageId", message_ids), ("PartitionKey", partition_keys), ("SessionId", session_ids)
    numbers = (
        ("TimeToLive", lives, limits.TIME_TO_LIVE_MS_MAX),
        ("ScheduledEnqueueTime", due, TIME_MS_MAX),
    )
    # By index: the check that fails, of the first field that is wrong.
    wrong: dict[int, tuple[Callable[..., None], str, Any, int]] = {}
    for field, column, most in reversed(numbers):
        for i, value in enumerate(column):
            if not 0 <= value <= most:
                wrong[i] = check_number, field, value, most
    for field, keys in reversed(texts):
        for i, text in enumerate(keys):
            if len(text) > longest or "\0" in text:
                wrong[i] = check_text, field, text, longest
    shared: dict[str, InvalidArgument] = {}
    for count, i in enumerate(sorted(wrong)):
        check, field, value, most = wrong[i]
        if count >= FAULTS_SPELT_OUT:
            if field not in shared:
                must = "0 to" if check is check_number else "text without NUL (U+0000) of at most"
                shared[field] = InvalidArgument(field, f"must be {must} {most}.")
            yield i, shared[field]
            continue
        try:
            check(field, value, most)
        except InvalidArgument as error:
            yield i, error
