"""What a streaming query reads and settles, call by call as Spark makes them."""

import pytest

from bendybus.spark.errors import DataLossError, LeaseLostError, PipelineError
from tests.spark.memory_bus import MemoryBus
from tests.spark.stream_query import Query


@pytest.mark.requirement("R292")
def test_a_drain_settles_all_that_was_committed_also_the_last_batch() -> None:
    query = Query(MemoryBus(5, 3), settle="trailing", maxMessagesPerTrigger="2", now=True)

    batches = query.run()

    assert batches > 3
    assert sorted(query.read) == sorted(
        [f"0-{n}" for n in range(1, 6)] + [f"1-{n}" for n in range(1, 4)]
    )
    assert query.bus.left() == 0
    assert query.bus.leases[-1].released


@pytest.mark.requirement("R292")
def test_a_batch_that_was_not_committed_is_not_settled_and_read_again_after_a_restart() -> None:
    query = Query(MemoryBus(5), settle="trailing", now=True)
    query.trigger()

    query.trigger(dies=True)
    left = query.bus.left()
    query.restart()
    query.run()

    assert left == 5
    assert query.read == [f"0-{n}" for n in range(1, 6)]
    assert query.bus.left() == 0


@pytest.mark.requirement("R292")
def test_a_query_that_idles_settles_its_last_batch() -> None:
    query = Query(MemoryBus(3), settle="trailing")
    query.run()

    assert query.bus.left() == 0
    assert not query.bus.leases[-1].released


@pytest.mark.requirement("R293")
def test_the_start_is_pinned_by_an_empty_batch_before_anything_is_read() -> None:
    query = Query(MemoryBus(2), startingOffsets="earliest")

    query.trigger()
    before = list(query.read)
    query.run()

    assert query.log[0] == query.planner.initial()
    assert before == []
    assert query.read == ["0-1", "0-2"]


@pytest.mark.requirement("R293")
def test_a_query_that_starts_with_latest_asks_for_its_start_once() -> None:
    query = Query(MemoryBus(2))
    first = query.planner.initial()
    query.bus.send(0)

    assert query.planner.initial() == first


@pytest.mark.requirement("R293")
def test_a_run_that_died_in_its_first_batch_reads_in_the_next_one() -> None:
    query = Query(MemoryBus(2), settle="trailing", now=True)
    query.trigger(dies=True)

    query.restart()
    query.run()

    assert query.read == ["0-1", "0-2"]


@pytest.mark.requirement("R293")
def test_the_owner_of_a_drain_is_in_its_checkpoint_so_a_restart_takes_the_lease_over() -> None:
    query = Query(MemoryBus(2), settle="trailing")
    query.run()

    query.restart()
    query.bus.send(0)
    query.run()

    owners = {lease.owner for lease in query.bus.leases}
    assert len(query.bus.leases) == 2
    assert owners == {query.log[-1]["owner"]}
    assert query.bus.left() == 0


@pytest.mark.requirement("R293")
def test_the_option_owner_names_the_owner() -> None:
    query = Query(MemoryBus(2), settle="trailing", owner="capture-orders")

    query.run()

    assert query.bus.leases[-1].owner == "capture-orders"


@pytest.mark.requirement("R295")
def test_a_run_that_reads_what_is_there_now_ends_where_it_began() -> None:
    query = Query(MemoryBus(4, 1), now=True, startingOffsets="earliest", maxMessagesPerTrigger="2")
    query.trigger()
    query.bus.send(0, 10)

    query.run()

    assert sorted(query.read) == ["0-1", "0-2", "0-3", "0-4", "1-1"]


@pytest.mark.requirement("R295")
def test_a_batch_waits_for_enough_messages_but_not_for_too_long() -> None:
    query = Query(MemoryBus(0), minMessagesPerTrigger="3", maxTriggerDelay="60s")
    query.run()
    query.bus.send(0)
    query.trigger()
    query.bus.send(0, 2)

    waited = query.trigger()
    query.clock.sleep(61)
    late = query.trigger()

    assert not waited
    assert late
    assert query.read == ["0-1", "0-2", "0-3"]


@pytest.mark.requirement("R295")
def test_enough_messages_are_read_at_once() -> None:
    query = Query(MemoryBus(0), minMessagesPerTrigger="3")
    query.run()
    query.bus.send(0)
    query.trigger()
    query.bus.send(0, 3)

    assert query.trigger()


@pytest.mark.requirement("R295")
def test_an_idle_query_looks_a_few_times_a_second_whatever_its_trigger() -> None:
    query = Query(MemoryBus(1))
    query.run()
    looks, began = query.bus.looks, query.clock.now

    while query.clock.now < began + 1:
        assert not query.trigger()

    assert query.bus.looks - looks <= 10


@pytest.mark.requirement("R296")
def test_a_partition_that_is_away_is_read_later_and_the_others_now() -> None:
    query = Query(MemoryBus(2, 2), startingOffsets="earliest")
    query.trigger()
    query.bus.partitions[1].away = True

    query.run()
    without = list(query.read)
    query.bus.partitions[1].away = False
    query.run()

    assert without == ["0-1", "0-2"]
    assert query.read == ["0-1", "0-2", "1-1", "1-2"]


@pytest.mark.requirement("R296")
def test_a_partition_that_stays_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    query = Query(MemoryBus(2, 2), startingOffsets="earliest")
    query.bus.partitions[1].away = True

    for _ in range(5):
        query.trigger()

    assert [record.message for record in caplog.records if "orders/1" in record.message] == [
        "orders/1: unavailable: the partition does not answer."
    ]


@pytest.mark.requirement("R296")
def test_a_partition_that_was_away_when_the_query_began_is_read_from_its_beginning() -> None:
    bus = MemoryBus(1, 2)
    bus.partitions[1].away = True
    query = Query(bus, startingOffsets="earliest")
    query.run()

    bus.partitions[1].away = False
    query.run()

    assert query.read == ["0-1", "1-1", "1-2"]


@pytest.mark.requirement("R296")
def test_a_new_query_from_latest_waits_for_all_partitions_within_its_timeout() -> None:
    bus = MemoryBus(1, 2)
    bus.partitions[1].away = True

    with pytest.raises(PipelineError, match="partition 1: is unavailable"):
        Query(bus, timeout="5s")


@pytest.mark.requirement("R296")
def test_a_partition_with_locked_messages_is_not_drained_until_they_are_done() -> None:
    bus = MemoryBus(1, 2)
    bus.partitions[1].locked = 2
    query = Query(bus, settle="trailing")
    query.run()
    before = list(query.read)

    bus.partitions[1].locked = 0
    query.clock.sleep(5)
    query.run()

    assert before == ["0-1"]
    assert query.read == ["0-1", "1-1", "1-2"]
    assert bus.left() == 0


@pytest.mark.parametrize("deal_by", ["lag", "time"])
def test_why_a_partition_is_not_drained_is_logged_once(
    deal_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus = MemoryBus(1, 2)
    bus.partitions[1].locked = 2
    query = Query(bus, settle="trailing", dealBy=deal_by)
    query.run()
    query.run()

    assert [record.message for record in caplog.records if "orders/1" in record.message] == [
        "orders/1: not drained: 2 messages are locked by receivers"
    ]


@pytest.mark.requirement("R296")
def test_a_settlement_that_a_partition_missed_is_made_up_for() -> None:
    bus = MemoryBus(2, 2)
    query = Query(bus, settle="trailing")
    query.trigger()
    query.trigger()
    bus.partitions[1].away = True
    query.trigger()
    left = bus.left()

    bus.partitions[1].away = False
    query.clock.sleep(5)
    query.trigger()

    assert left == 2
    assert bus.left() == 0


@pytest.mark.requirement("R292")
def test_a_drain_whose_lease_another_one_took_fails_and_settles_nothing() -> None:
    query = Query(MemoryBus(2), settle="trailing")
    query.trigger()
    query.trigger()
    query.bus.leases[-1].released = True
    query.bus.lease("another", 60)

    with pytest.raises(LeaseLostError, match="is lost"):
        query.trigger()

    assert query.bus.left() == 2


@pytest.mark.requirement("R292")
def test_a_checkpoint_of_a_tap_is_no_start_of_a_drain() -> None:
    query = Query(MemoryBus(2))
    query.run()
    query.given = {"settle": "trailing"}
    query.restart()

    with pytest.raises(PipelineError, match="another checkpointLocation"):
        query.trigger()


@pytest.mark.requirement("R294")
def test_what_expired_before_it_was_read_is_a_loss() -> None:
    query = Query(MemoryBus(3), startingOffsets="earliest")
    query.trigger()
    query.bus.expire(0, 2)

    with pytest.raises(DataLossError, match=r"orders, partition 0: messages up to 2 .* expired"):
        query.trigger()


@pytest.mark.requirement("R294")
def test_what_expired_before_the_query_began_is_no_loss_of_it() -> None:
    bus = MemoryBus(5)
    bus.expire(0, 3)
    query = Query(bus, startingOffsets="earliest")

    query.run()

    assert query.read == ["0-1", "0-2", "0-4", "0-5"]


@pytest.mark.requirement("R285")
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_drain_removes_nothing_unread_of_a_queue_that_was_made_again(fails: str) -> None:
    query = Query(MemoryBus(3, 3), settle="trailing", now=True, failOnDataLoss=fails)
    query.run()
    made = query.bus.partitions[0]
    made.incarnation, made.tail, made.messages = "b", 2, {1: "new", 2: "newer"}

    query.restart()
    if fails == "true":
        with pytest.raises(DataLossError, match="recreated or restored"):
            query.trigger()
        assert made.messages == {1: "new", 2: "newer"}
    else:
        query.run()
        assert query.read[-2:] == ["new", "newer"]
        assert made.messages == {}


@pytest.mark.requirement("R285")
def test_a_drain_that_goes_on_settles_the_numbers_that_began_again() -> None:
    query = Query(MemoryBus(3), settle="trailing", failOnDataLoss="false")
    query.run()
    made = query.bus.partitions[0]
    made.incarnation, made.tail, made.messages = "b", 1, {1: "new"}

    query.run()
    query.trigger()

    assert query.read[-1] == "new"
    assert made.messages == {}


@pytest.mark.requirement("R294")
def test_a_queue_that_was_made_again_is_a_loss_or_read_from_its_beginning() -> None:
    query = Query(MemoryBus(3), startingOffsets="earliest")
    query.run()
    query.bus.partitions[0].incarnation = "b"
    query.bus.partitions[0].tail = 1
    query.bus.partitions[0].messages = {1: "new"}

    with pytest.raises(DataLossError, match="recreated or restored"):
        query.trigger()
    query.given["failOnDataLoss"] = "false"
    query.restart()
    query.run()

    assert query.read == ["0-1", "0-2", "0-3", "new"]
