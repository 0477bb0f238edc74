"""A batch of a streaming read that is repeated has the tasks and rows that it was begun with."""

import pytest

from bendybus.spark.errors import OptionError
from tests.spark.memory_bus import MemoryBus
from tests.spark.stream_query import Query


@pytest.mark.requirement("R360")
def test_a_batch_that_is_repeated_is_cut_into_the_tasks_that_it_was_begun_with() -> None:
    query = Query(MemoryBus(40), startingOffsets="earliest", minPartitions="2")
    query.trigger()
    query.trigger(dies=True)
    begun = query.tasks

    query.restart(minPartitions="4")
    repeated = query.tasks
    query.bus.send(0, 40)
    query.trigger()

    assert [len(begun), len(repeated), len(query.tasks)] == [2, 2, 4]
    assert repeated == begun
    assert sorted(query.read) == sorted(f"0-{n}" for n in range(1, 81))


@pytest.mark.requirement("R360")
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"states": "active,deferred"}, "option states: a batch that was begun with 'active' is"),
        ({"sessionId": "s"}, "option sessionId: a batch that was begun with none is not"),
    ],
)
def test_a_repeat_that_would_have_other_rows_is_refused_until_the_batch_is_finished(
    changed: dict[str, str], sentence: str
) -> None:
    query = Query(MemoryBus(4), startingOffsets="earliest")
    query.trigger()
    query.trigger(dies=True)

    with pytest.raises(OptionError, match=sentence):
        query.restart(**changed)


@pytest.mark.requirement("R360")
def test_a_batch_without_a_record_of_its_shape_is_finished_as_options_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = Query(MemoryBus(4), startingOffsets="earliest")
    query.trigger()
    query.trigger(dies=True)
    query.log[-1].pop("shape", None)

    query.restart(minPartitions="2")

    assert len(query.tasks) == 2
    query.bus.send(0)
    query.run()
    assert query.read == ["0-1", "0-2", "0-3", "0-4", "0-5"]
    said = [each for each in caplog.messages if "does not record minPartitions" in each]
    assert len(said) == 1
