"""Credit: a delivery consumes it, it lapses or is drained, and nothing comes for what is void."""

from bendybus.domain import bounds
from bendybus.frontend.core import credit, partition_asks, receive_cache
from tests.frontend.receiver import Receiver


def test_a_delivery_consumes_credit_and_the_rest_stays() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)

    receiver.reserve(0, "a", "b")
    receiver.reserve(1, "c")

    assert receiver.handed == [(tag, ["a", "b"]), (tag, ["c"])]
    assert receiver.credits[tag].messages == 2


def test_credit_that_lapses_is_void_after_its_first_delivery() -> None:
    receiver = Receiver()
    tag = receiver.ask(5)

    receiver.reserve(0, "a", "b")
    receiver.reserve(1, "c")

    assert receiver.handed == [(tag, ["a", "b"])]
    assert receiver.cache.cached() == 1


def test_no_more_messages_are_handed_over_than_there_is_credit() -> None:
    receiver = Receiver()
    tag = receiver.grant(3)

    receiver.reserve(0, "a", "b", "c", "d", "e")

    assert receiver.handed == [(tag, ["a", "b", "c"])]
    assert not receiver.cache.waiting()
    receiver.grant_more(tag, 1)
    assert receiver.handed[1:] == [(tag, ["d"])]


def test_partitions_are_asked_as_long_as_there_is_credit() -> None:
    receiver = Receiver(partitions=1)
    receiver.grant(5)
    assert receiver.asked[0].messages == 5

    receiver.reserve(0, "a", "b")
    assert receiver.asked[0].messages == 3
    receiver.reserve(0, "c", "d", "e")

    assert not receiver.asked


def test_a_partition_is_not_asked_for_more_than_it_takes() -> None:
    receiver = Receiver(partitions=1, down=(0,))
    for _ in range(2 * bounds.ASK_MESSAGES_MAX // credit.MESSAGES_MAX):
        receiver.grant(1_000_000)
    receiver.down.clear()

    receiver.take(receiver.cache.partition_back(0, receiver.now))

    assert receiver.asked[0].messages == bounds.ASK_MESSAGES_MAX


def test_receivers_with_credit_are_served_in_turn() -> None:
    receiver = Receiver()
    first, second = receiver.grant(100), receiver.grant(100)

    receiver.reserve(0, "a")
    receiver.reserve(1, "b")
    receiver.reserve(2, "c")

    assert receiver.handed == [(first, ["a"]), (second, ["b"]), (first, ["c"])]


def test_credit_is_drained_when_partitions_said_what_they_have() -> None:
    receiver = Receiver()
    tag = receiver.grant(50)
    asked = dict(receiver.asked)

    receiver.drain(tag)
    assert set(receiver.withdrawn) == {0, 1, 2, 3}
    receiver.asked = asked
    receiver.reserve(0, "a")
    receiver.confirm(1, 2, 3)

    # The last one tells that the rest is void.
    assert receiver.handed == [(tag, ["a"]), (tag, [])]
    assert not receiver.unanswered
    assert not receiver.cache.waiting()


def test_draining_takes_all_that_a_partition_has_not_only_its_share() -> None:
    receiver = Receiver()
    tag = receiver.grant(50)
    asked = dict(receiver.asked)
    receiver.drain(tag)
    receiver.confirm(1, 2, 3)

    receiver.asked = dict(asked)
    receiver.reserve(0, "a", more=True)
    # Asked for what is left of the credit, and withdrawn at once.
    assert receiver.withdrawn[0].ask_id > asked[0].ask_id
    receiver.confirm(0)

    assert receiver.handed == [(tag, ["a"]), (tag, [])]


def test_credit_that_is_used_up_while_it_drains_is_drained() -> None:
    receiver = Receiver()
    tag = receiver.grant(1)
    asked = dict(receiver.asked)
    receiver.drain(tag)

    receiver.asked = asked
    receiver.reserve(0, "a")

    assert receiver.handed == [(tag, ["a"]), (tag, [])]


def test_draining_used_up_credit_says_at_once_that_it_is_drained() -> None:
    receiver = Receiver()
    tag = receiver.grant(1)
    receiver.reserve(0, "a")

    receiver.drain(tag)

    assert receiver.handed == [(tag, ["a"]), (tag, [])]


def test_draining_does_not_wait_long_for_partitions_that_say_nothing() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)
    receiver.drain(tag)
    receiver.confirm(0)

    receiver.pass_time(receive_cache.DRAIN_MS)

    assert receiver.handed == [(tag, [])]


def test_a_queue_of_which_no_partition_answers_is_drained_as_unanswered() -> None:
    receiver = Receiver(down=(0, 1, 2, 3))
    tag = receiver.grant(5)

    receiver.drain(tag)

    assert receiver.unanswered == [tag]


def test_nothing_comes_for_credit_that_was_drained() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)
    asked = dict(receiver.asked)
    receiver.drain(tag)
    receiver.confirm()

    receiver.asked = asked
    receiver.reserve(0, "late")

    assert receiver.handed == [(tag, [])]
    assert receiver.cache.cached() == 1


def test_draining_one_receiver_leaves_the_credit_of_others() -> None:
    receiver = Receiver()
    first, second = receiver.grant(5), receiver.grant(5)

    receiver.drain(first)
    receiver.confirm()

    assert receiver.handed == [(first, [])]
    receiver.reserve(0, "a")
    assert receiver.handed[1:] == [(second, ["a"])]


def test_more_credit_ends_draining() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)
    receiver.drain(tag)

    receiver.grant_more(tag, 5)
    receiver.confirm()

    assert receiver.handed == []
    receiver.reserve(0, "a")
    assert receiver.handed == [(tag, ["a"])]


def test_draining_twice_is_answered_once() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)

    receiver.drain(tag)
    receiver.drain(tag)
    receiver.confirm()

    assert receiver.handed == [(tag, [])]


def test_cancelled_credit_is_void_at_once() -> None:
    receiver = Receiver()
    tag = receiver.grant(5)

    receiver.cancel(tag)

    assert receiver.handed == [(tag, [])]
    receiver.pass_time(partition_asks.WITHDRAW_MS)
    receiver.pass_time(partition_asks.WITHDRAW_MS)
    assert not receiver.asked


def test_a_paused_connection_keeps_its_credit_and_gets_nothing() -> None:
    receiver = Receiver()
    tag = receiver.grant(5, owner="slow")
    receiver.cache.pause("slow")

    receiver.reserve(0, "a")
    assert receiver.handed == []
    receiver.take(receiver.cache.resume("slow", receiver.now))

    assert receiver.handed == [(tag, ["a"])]
    assert receiver.credits[tag].messages == 4
