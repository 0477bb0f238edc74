"""What receivers keep for their sessions, and the list of sessions, for every listener."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bendybus.domain import bounds, errors, limits, message_access, session_access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import receivable, session_requests
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.upstreams import message_calls
from bendybus.frontend.upstreams.message_calls import Target
from bendybus.frontend.upstreams.upstream import Upstream

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
_PARTITION_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Page:
    """Sessions, and where to go on; empty: that is all."""

    session_ids: Sequence[str]
    following: bytes


async def get(front_end: FrontEnd, name: str, token: bytes) -> bytes | None:
    """Return what is kept for a session, None: nothing. Raises SessionLockLost."""
    upstream, target = _located(front_end, name, token)
    return await message_calls.session_state(upstream, target, token)


async def put(front_end: FrontEnd, name: str, token: bytes, state: bytes | None) -> None:
    """Keep something for a session, None: nothing any more. Raises SessionLockLost."""
    upstream, target = _located(front_end, name, token)
    await message_calls.set_session_state(upstream, target, token, state)


async def page(
    front_end: FrontEnd, name: str, size: int, page_token: bytes, state_updated_after_ms: int
) -> Page:
    """Return sessions with active messages or a state, partition after partition.

    With a time only those whose state was set after it. Raises PartitionUnavailable rather than
    leave out those of a partition.
    """
    entity = front_end.directory.find(name)
    message_access.check(entity, message_access.Access.RECEIVE)
    session_access.check(entity, SubQueue.MAIN, by_session=True)
    bounds.check_number("page_size", size, PAGE_MAX)
    partition, after = _place(page_token)
    left = [each for each in sorted(entity.partitions()) if each >= partition]
    if not left:
        return Page((), b"")
    target = Target(entity, SubQueue.MAIN, front_end.settings.unary_timeout_s)
    found, following = await message_calls.list_sessions(
        front_end.upstreams[left[0]],
        target,
        sessions=size or PAGE_DEFAULT,
        after=after if left[0] == partition else None,
        state_updated_after_ms=state_updated_after_ms,
    )
    if following is not None:
        return Page(found, _page_token(left[0], following))
    return Page(found, _page_token(left[1], None) if len(left) > 1 else b"")


def _page_token(partition: int, after: str | None) -> bytes:
    place = b"" if after is None else b"\0" + after.encode("utf-8", "surrogatepass")
    return partition.to_bytes(_PARTITION_BYTES, "big") + place


def _place(page_token: bytes) -> tuple[int, str | None]:
    if not page_token:
        return 0, None
    try:
        if len(page_token) > _PARTITION_BYTES + 1 + 4 * limits.KEY_CHARS_MAX:
            raise ValueError("too long")
        partition = int.from_bytes(page_token[:_PARTITION_BYTES], "big")
        place = page_token[_PARTITION_BYTES:].decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise errors.InvalidArgument("page_token", "is not valid for this call.") from error
    return partition, place[1:] if place else None


def _located(front_end: FrontEnd, name: str, token: bytes) -> tuple[Upstream, Target]:
    entity = receivable.find(front_end.directory, name)
    upstream = front_end.upstreams[session_requests.partition_of(token, front_end.upstreams)]
    return upstream, Target(entity, SubQueue.MAIN, front_end.settings.unary_timeout_s)
