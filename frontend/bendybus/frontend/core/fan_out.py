"""One call to several partitions at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.upstreams.upstream import Upstream

Answer = TypeVar("Answer")


async def gather(
    upstreams: Mapping[int, Upstream],
    partitions: Iterable[int],
    ask: Callable[[Upstream], Awaitable[Answer]],
    *,
    what: str,
) -> dict[int, Answer]:
    """Return the answers of all `partitions`; raise the first failure.

    `what` names the field that a partition number came from, for one that does not exist.
    """
    wanted = list(partitions)
    for partition in wanted:
        if partition not in upstreams:
            raise errors.MessageNotFound(
                f"{what}: there is no partition {partition} in this namespace.",
                metadata={"field": what},
            )
    results = await asyncio.gather(
        *(ask(upstreams[partition]) for partition in wanted), return_exceptions=True
    )
    answers: dict[int, Answer] = {}
    for partition, result in zip(wanted, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        answers[partition] = result
    return answers


async def each(
    upstreams: Mapping[int, Upstream], ask: Callable[[Upstream], Awaitable[Answer]]
) -> dict[int, Answer | BusError]:
    """Return the answer of each partition, or why there is none."""

    async def one(upstream: Upstream) -> Answer | BusError:
        try:
            return await ask(upstream)
        except BusError as error:
            return error

    results = await asyncio.gather(*map(one, upstreams.values()))
    return dict(zip(upstreams, results, strict=True))
