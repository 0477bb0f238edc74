"""What the sessions of an entity hold, partition after partition, for every listener."""

from collections.abc import Sequence
from typing import Final

from bendybus.domain import bounds, errors, limits, message_access, session_access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.session_states import PAGE_DEFAULT, PAGE_MAX
from bendybus.frontend.upstreams import message_calls
from bendybus.frontend.upstreams.message_calls import SessionCounts, Target

_PARTITION_BYTES: Final = 2
# More than a place with a name of the greatest length takes.
_TOKEN_BYTES_MAX: Final = 4 * limits.KEY_CHARS_MAX + 128


async def page(
    front_end: FrontEnd, name: str, size: int, page_token: bytes
) -> tuple[Sequence[SessionCounts], bytes]:
    """Return what sessions hold, and the next page's token; empty: that is all.

    Raises PartitionUnavailable rather than leave out those of a partition.
    """
    entity = front_end.directory.find(name)
    message_access.check(entity, message_access.Access.RECEIVE)
    session_access.check(entity, SubQueue.MAIN, by_session=True)
    bounds.check_number("page_size", size, PAGE_MAX)
    if len(page_token) > _TOKEN_BYTES_MAX:
        raise errors.InvalidArgument("page_token", "is not valid for this call.")
    partition = int.from_bytes(page_token[:_PARTITION_BYTES], "big")
    place = page_token[_PARTITION_BYTES:]
    left = [each for each in sorted(entity.partitions()) if each >= partition]
    if not left:
        return (), b""
    found, following = await message_calls.count_sessions(
        front_end.upstreams[left[0]],
        Target(entity, SubQueue.MAIN, front_end.settings.unary_timeout_s),
        sessions=size or PAGE_DEFAULT,
        after=place if place and left[0] == partition else None,
    )
    if following is not None:
        return found, _token(left[0], following)
    return found, _token(left[1], b"") if len(left) > 1 else b""


def _token(partition: int, place: bytes) -> bytes:
    return partition.to_bytes(_PARTITION_BYTES, "big") + place
