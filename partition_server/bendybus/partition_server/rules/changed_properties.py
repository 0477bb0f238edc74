"""Application properties that receivers changed while they had a message."""

from bendybus.domain import errors, limits


def merged(before: bytes | None, changes: bytes | None) -> bytes | None:
    """Return both changes; serialised maps are merged by concatenation, the later one wins.

    Raises InvalidArgument when they become too large.
    """
    if not changes:
        return before
    both = (before or b"") + changes
    if len(both) > limits.HEADER_BYTES_MAX:
        raise errors.InvalidArgument(
            "changed_properties",
            f"{len(both)} bytes are more than the {limits.HEADER_BYTES_MAX} that all changes of "
            "a message may take.",
        )
    return both
