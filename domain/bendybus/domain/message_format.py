"""The forms in which messages travel and are stored: a head, a body, and a number that says which.

The head is what filters read; the body is the rest. Both are opaque bytes to everything that only
carries them.
"""

from collections.abc import Sequence
from typing import Final

from bendybus.domain.errors import InvalidArgument

# A serialised bendybus.v1.Message, whole, in the body; no head.
WHOLE: Final = 0
# Head and body are each a serialised bendybus.v1.Message; concatenated they are a WHOLE.
SPLIT: Final = 1
# 2 is kept for AMQP's bare message, split at its body.
NEWEST: Final = SPLIT


def check(heads: Sequence[bytes], formats: Sequence[int]) -> None:
    """Raise InvalidArgument unless these columns, empty or of the same length, fit together."""
    newest = max(formats, default=WHOLE)
    if newest > NEWEST:
        raise InvalidArgument(
            "formats",
            f"message format {newest} is not supported; this version supports up to {NEWEST}. "
            "Upgrade the bus before its clients.",
        )
    if not heads or (formats and WHOLE not in formats):
        return
    if any(
        head and format_ == WHOLE
        for head, format_ in zip(heads, formats or [WHOLE] * len(heads), strict=True)
    ):
        raise InvalidArgument("heads", f"a message of format {WHOLE} must not have a head.")
