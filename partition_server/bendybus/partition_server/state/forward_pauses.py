"""How long to wait until a destination that refuses what is forwarded is tried again."""

from typing import Final

RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 10_000
# Where many destinations refuse, each is tried less often.
SHARE_MS: Final = 5


def retry_ms(refuses_for_ms: int, refusing: int = 1) -> int:
    """Return when to try a destination again that refuses, one of as many.

    The longer it refuses, the later: a quarter of that time, so that messages wait little longer
    than they have to.
    """
    return min(RETRY_MS_MAX, max(RETRY_MS, refuses_for_ms // 4, refusing * SHARE_MS))
