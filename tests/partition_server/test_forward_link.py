"""The link between partitions: one outcome for every frame, whatever happens."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.partition_server.service import forward_link
from bendybus.partition_server.service.forward_link import ForwardLinks
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.state.answers import Done, Failed, ForwardedTaken
from bendybus.partition_server.state.commands import TakeForwarded
from bendybus.partition_server.state.lanes import ForwardOutcome, Outgoing
from tests.partition_server.test_forward_frames import PLAIN, outgoing
from tests.ports import HOST, free_port


class FakeThread:
    """Takes commands and answers them by `answers`, from the second try on where it is `full`."""

    def __init__(self, index: int, answers: Callable[[Any], Any]) -> None:
        self.index = index
        self.full = 0
        self.forward_link: Any = None
        self.taken: asyncio.Queue[Any] = asyncio.Queue()
        self._answers = answers

    def submit(self, command: Any) -> bool:
        if self.full:
            self.full -= 1
            return False
        self.taken.put_nowait(command)
        value = self._answers(command)
        asyncio.get_running_loop().call_soon(command.reply_to.answer, value)
        return True


def links(*threads: FakeThread, peers: dict[int, str] | None = None) -> ForwardLinks:
    hosts: Any = SimpleNamespace(threads={thread.index: thread for thread in threads})
    hosts.find = lambda index: hosts.threads[index]
    hosts.ask = lambda index, make: Hosts.ask(hosts, index, make)
    made = ForwardLinks(hosts, peers or {})
    made.link_all()
    return made


def frame_to(partition: int) -> Outgoing:
    frame = outgoing(PLAIN)
    values = {name: getattr(frame, name) for name in Outgoing.__slots__}
    return Outgoing(**{**values, "partition": partition})


async def outcome_of(thread: FakeThread) -> ForwardOutcome:
    async with asyncio.timeout(20):
        while not isinstance(found := await thread.taken.get(), ForwardOutcome):
            pass
    return found


@pytest.mark.requirement("R214")
async def test_a_frame_for_a_partition_of_the_same_process_gets_its_answer() -> None:
    taken = ForwardedTaken(1, {})
    source = FakeThread(0, lambda _: Done())
    destination = FakeThread(1, lambda _: taken)
    made = links(source, destination)

    source.forward_link.answer(frame_to(1))
    outcome = await outcome_of(source)

    assert (outcome.taken, outcome.partition, outcome.sequence) == (taken, 1, 8)
    assert isinstance(destination.taken.get_nowait(), TakeForwarded)
    await made.close()


@pytest.mark.requirement("R214")
@pytest.mark.parametrize("known", [False, True])
async def test_a_frame_that_is_not_answered_has_an_outcome_too(
    known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = FakeThread(0, lambda _: Done())
    made = links(source, peers={1: f"{HOST}:{free_port()}"} if known else {})

    source.forward_link.answer(frame_to(1))
    outcome = await outcome_of(source)
    source.forward_link.answer(frame_to(1))
    await outcome_of(source)

    assert outcome.taken is None
    warned = [record for record in caplog.records if "cannot forward" in record.message]
    assert len(warned) == 1
    assert ("--peer" in warned[0].message) is not known
    await made.close()


@pytest.mark.requirement("R214")
async def test_an_outcome_is_handed_in_until_its_partition_has_committed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forward_link, "AGAIN_S", 0.01)
    given: list[Any] = [Failed(errors.PartitionUnavailable("full disk")), Done()]
    source = FakeThread(0, lambda command: given.pop(0))
    source.full = 2
    made = links(source)

    source.forward_link.answer(frame_to(1))

    assert await outcome_of(source) is await outcome_of(source)
    await asyncio.sleep(0.05)
    assert source.taken.empty()
    await made.close()


async def test_a_frame_whose_commit_failed_is_not_sent() -> None:
    source = FakeThread(0, lambda _: Done())
    made = links(source)

    source.forward_link.answer(Failed(errors.PartitionUnavailable("full disk")))
    await asyncio.sleep(0)

    assert source.taken.empty()
    assert source.forward_link.open == 0
    await made.close()
