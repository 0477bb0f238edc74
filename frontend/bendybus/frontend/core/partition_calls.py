"""Unary calls to several partitions at once, and what their failures mean."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.core.gateway import Gateway
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.wire import statuses

DEFAULT_TIMEOUT_MS: Final = 60_000
Make = Callable[[Any, int], Awaitable[Any]]


def remaining_ms(context: Any) -> int:
    """Return what is left of a call's deadline; the default where it has none."""
    left: float | None = context.time_remaining()
    return DEFAULT_TIMEOUT_MS if left is None else max(1, round(left * 1000))


async def call(upstream: Upstream, make: Make, *, changes: bool = False) -> Any:
    """Return a partition's answer. Raises the domain error, PartitionUnavailable included.

    `changes`: the call changes something; if its answer is lost, it may have been done.
    """
    if not upstream.available:
        raise unreachable(upstream)
    try:
        return await make(upstream.calls, upstream.partition)
    except grpc.RpcError as error:
        found = statuses.from_rpc_error(error)
        if type(found) in (errors.RetryableError, errors.ServiceTimeout):
            raise (unknown(upstream) if changes else unreachable(upstream)) from error
        raise found from error


async def gather(
    gateway: Gateway,
    partitions: Iterable[int],
    make: Make,
    *,
    what: str,
    changes: bool = False,
) -> dict[int, Any]:
    """Return the answers of all `partitions`; raise the first failure.

    `what` names the field that a partition number came from, for one that does not exist.
    """
    wanted = list(partitions)
    for partition in wanted:
        if partition not in gateway.upstreams:
            raise errors.MessageNotFound(
                f"{what}: there is no partition {partition} in this namespace.",
                metadata={"field": what},
            )
    results = await asyncio.gather(
        *(call(gateway.upstreams[partition], make, changes=changes) for partition in wanted),
        return_exceptions=True,
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return dict(zip(wanted, results, strict=True))


async def each(
    gateway: Gateway, partitions: Iterable[int], make: Make
) -> dict[int, Any | BusError]:
    """Return the answer of each partition, or why there is none."""

    async def one(partition: int) -> Any | BusError:
        try:
            return await call(gateway.upstreams[partition], make)
        except BusError as error:
            return error

    wanted = list(partitions)
    results = await asyncio.gather(*(one(partition) for partition in wanted))
    return dict(zip(wanted, results, strict=True))


def unreachable(upstream: Upstream) -> BusError:
    """Return the error for a partition that cannot be asked now."""
    why = "; ".join(upstream.conditions()) or "it did not answer"
    return errors.PartitionUnavailable(
        f"partition {upstream.partition} is unavailable ({why}). Try again when it is back.",
        metadata={"partition": str(upstream.partition)},
    )


def unknown(upstream: Upstream) -> BusError:
    """Return the error for a change of which the partition's answer was lost."""
    return errors.OutcomeUnknown(
        f"partition {upstream.partition} was asked and did not answer: it may have done this.",
        metadata={"partition": str(upstream.partition)},
    )
