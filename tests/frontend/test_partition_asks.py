"""How many messages partitions are asked for: ahead of quick loops, and never of plain queues."""

from bendybus.frontend.core import partition_asks, receive_cache
from tests.frontend.test_receive_cache import Receiver


def loop_quickly(receiver: Receiver, milliseconds: int) -> None:
    """Receive a message a millisecond, one at a time, as a plain loop does."""
    for _ in range(milliseconds):
        receiver.ask(1)
        while receiver.cache.waiting():
            partition = next(iter(receiver.asked))
            count = receiver.asked[partition].messages
            receiver.reserve(partition, *["m"] * count, more=True)
        receiver.now += 1


def test_for_a_quick_loop_partitions_are_asked_for_what_it_takes_in_a_moment() -> None:
    receiver = Receiver()

    loop_quickly(receiver, 3 * partition_asks.LEAD_MS)
    while receiver.cache.cached():
        receiver.ask(1)
    receiver.asked.clear()
    receiver.ask(1)

    asked = [ask.messages for ask in receiver.asked.values()]
    assert sum(asked) > 10
    assert sum(asked) <= partition_asks.LEAD_MAX


def test_a_slow_receiver_has_one_message_of_each_partition_asked_for() -> None:
    receiver = Receiver()
    for _ in range(10):
        receiver.ask(1)
        for partition in list(receiver.asked):
            assert receiver.asked[partition].messages == 1
            receiver.reserve(partition, "m", more=True)
        receiver.pass_time(2 * partition_asks.LEAD_MS)


def test_what_was_asked_for_ahead_goes_back_soon_after_the_loop_stops() -> None:
    receiver = Receiver()
    loop_quickly(receiver, 3 * partition_asks.LEAD_MS)
    while (held := receiver.cache.cached()) < 5:
        loop_quickly(receiver, 1)

    receiver.pass_time(receive_cache.LEAD_IDLE_MS)

    assert receiver.cache.cached() == 0
    assert len(receiver.given_back) == held


def test_a_plain_queue_is_asked_for_exactly_what_is_wanted_also_by_a_quick_loop() -> None:
    receiver = Receiver(partitions=1)

    loop_quickly(receiver, 3 * partition_asks.LEAD_MS)

    assert receiver.cache.cached() == 0
