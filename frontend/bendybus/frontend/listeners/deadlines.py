"""How much time a gRPC call has left."""

from typing import Any, Final

DEFAULT_TIMEOUT_MS: Final = 60_000


def remaining_ms(context: Any) -> int:
    """Return what is left of a call's deadline; the default where it has none."""
    left: float | None = context.time_remaining()
    return DEFAULT_TIMEOUT_MS if left is None else max(1, round(left * 1000))
