"""Sequence numbers for messages that a transaction schedules, each from the partition of its key.

Clients get them before the commit, and cancel the messages by them after it.
"""

from typing import TYPE_CHECKING

from bendybus.domain import message_access, transactions
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, fan_out, routing
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Target
from bendybus.frontend.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from bendybus.frontend.core.front_end import FrontEnd


async def reserve(
    front_end: "FrontEnd", entity_path: str, messages: columns.MessageBatch
) -> list[int]:
    """Return a number for each message. Raises the domain error.

    0 for a message without a key that a partitioned entity is sent, which a transaction refuses.
    """
    entity = front_end.directory.find(entity_path)
    message_access.check(entity, Access.SEND)
    numbers = [0] * columns.count(messages)
    transactions.check_size(len(numbers), sum(columns.content_sizes(messages)))
    places: dict[int, list[int]] = {}
    for at, key in enumerate(routing.effective_keys(entity, columns.keys(messages))):
        if key is not None or not entity.partitioned:
            places.setdefault(entity.partition_of(key or ""), []).append(at)
    target = Target(entity, SubQueue.MAIN, front_end.settings.unary_timeout_s)

    async def ask(upstream: Upstream) -> int:
        count = len(places[upstream.partition])
        return await unary_calls.reserve_numbers(upstream, target, count=count)

    firsts = await fan_out.gather(front_end.upstreams, places, ask, what="messages")
    for partition, first in firsts.items():
        for number, at in enumerate(places[partition], first):
            numbers[at] = number
    return numbers
