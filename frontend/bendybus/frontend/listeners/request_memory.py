"""Memory of parsed requests and frames of gRPC: computed and reserved before they are parsed.

All methods come through here: unary calls by `memory_of`, streams by `Frames`. Small requests are
not counted, since the numbers of calls and streams are bounded. Most others are counted by their
length; the rest are walked element by element, one request at a time and in steps, so that the
loop goes on meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from bendybus.domain import errors, limits
from bendybus.frontend.core.quota.bounds import (
    BY_LENGTH_BYTES,
    FRAME_ROOM_S,
    FRAMES,
    LOOSE_BYTES,
    PARSED_SMALL_BYTES,
    WALK_STEPS_A_TURN,
)
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.wire import expansion, statuses

# The first walk takes STEPS elements, and one more for each BYTES_A_STEP.
STEPS: Final = 32
BYTES_A_STEP: Final = 4 * limits.KB
# Returns the next message of a call, or `grpc.aio.EOF`.
Read = Callable[[], Awaitable[Any]]
FrameT = TypeVar("FrameT", bound=Message)


async def memory_of(
    quota: Quota,
    holder: Holder,
    data: bytes,
    descriptor: expansion.Descriptor,
    by_length_max: int,
    what: str,
) -> int:
    """Return an upper bound of the bytes that a serialised message needs when it is parsed.

    The bound by its length, if that is at most `by_length_max`. Raises InvalidArgument for `what`,
    and ServerBusy when other requests of the policy are looked through for too long.
    """
    bound = expansion.by_length(len(data), descriptor)
    if bound <= by_length_max:
        return bound
    walk = expansion.Walk(data, descriptor)
    try:
        if walk.go_on(STEPS + len(data) // BYTES_A_STEP):
            return walk.held_bytes
        if bound <= LOOSE_BYTES:
            return bound
        async with asyncio.timeout(FRAME_ROOM_S), quota.walking(holder.policy):
            while True:
                if walk.go_on(WALK_STEPS_A_TURN):
                    return walk.held_bytes
                await asyncio.sleep(0)
    except TimeoutError:
        why = ""
    except expansion.TooLarge as error:
        why = str(error)
    finally:
        # An error keeps what its functions had until it is collected.
        del data
    del walk
    if not why:
        raise errors.ServerBusy(
            f"the {what} has many elements, and so have others of this policy, which are looked "
            "through one after the other. Send fewer of them at a time, and retry.",
            retry_after_ms=1_000,
        )
    raise errors.InvalidArgument(what, f"{why}. Send less at a time.")


class Frames(Generic[FrameT]):
    """The frames of a stream, parsed one at a time; each holds room until the next is asked for.

    `read` is that of the call's context: the iterator that gRPC gives to a handler keeps each
    message until the next one comes. `heard` is called for each frame that has room.
    """

    def __init__(
        self,
        quota: Quota,
        holder: Holder,
        read: Read,
        kind: type[FrameT],
        heard: Callable[[], None],
    ) -> None:
        self._quota = quota
        self._holder = holder
        self._read = read
        self._descriptor = kind.DESCRIPTOR
        self._parse = kind.FromString
        self._heard = heard
        self._per_byte = expansion.per_byte(kind.DESCRIPTOR)
        # A member of a oneof that was overwritten stays in memory; a parsed frame does not show it.
        self._has_choices = expansion.has_choices(kind.DESCRIPTOR)
        self._by_length_max = BY_LENGTH_BYTES if self._has_choices else FRAMES.connection
        self._taken = 0
        # The most memory that the latest frame needs.
        self.held_bytes = 0

    def __aiter__(self) -> "Frames[FrameT]":
        return self

    async def __anext__(self) -> FrameT:
        """Return the next frame. Raises InvalidArgument, ServerBusy."""
        if self._taken:
            self.close()
        data = await self._read()
        if data is grpc.aio.EOF:
            raise StopAsyncIteration
        try:
            self.held_bytes = expansion.ONCE_BYTES + len(data) * self._per_byte
            if self.held_bytes > PARSED_SMALL_BYTES:
                return await self._large(data)
            self._heard()
            return self._parse(data)
        except DecodeError as error:
            why = str(error)
        finally:
            del data
        raise statuses.malformed(DecodeError(why))

    def close(self) -> None:
        """Give back the room of the latest frame."""
        taken, self._taken = self._taken, 0
        if taken:
            self._quota.frames.give(self._holder, taken)

    async def _large(self, data: bytes) -> FrameT:
        """Return a frame that is counted: first by its bound, then as `of_parsed` finds it."""
        room, size_bytes, bound = self._quota.frames, len(data), self.held_bytes
        try:
            if bound > BY_LENGTH_BYTES:
                bound = await memory_of(
                    *(self._quota, self._holder, data, self._descriptor),
                    *(self._by_length_max, "frame"),
                )
            if not room.has(self._holder, bound):
                await self._wait(bound)
            self._heard()
            # Until it is counted nothing else is done.
            frame = self._parse(data)
        finally:
            del data
        # A small bound need not be made smaller.
        shows_all = bound > BY_LENGTH_BYTES and not self._has_choices
        elements = expansion.of_parsed(frame) if shows_all else None
        held_bytes = bound if elements is None else min(bound, size_bytes + elements)
        room.hold(self._holder, held_bytes)
        self._taken = self.held_bytes = held_bytes
        return frame

    async def _wait(self, size_bytes: int) -> None:
        """Wait until there is room."""
        try:
            async with asyncio.timeout(FRAME_ROOM_S):
                await self._quota.frames.wait(self._holder, size_bytes)
        except TimeoutError:
            pass
        else:
            self._quota.frames.give(self._holder, size_bytes)
            return
        raise errors.ServerBusy(
            "frames that are being read use up the memory for those of this connection, of this "
            "policy or of all callers. Send smaller ones, and retry.",
            retry_after_ms=1_000,
        )
