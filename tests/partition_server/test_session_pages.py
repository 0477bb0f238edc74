"""Pages of sessions: both stores have the same ones, and none is larger than was asked for."""

import itertools
import random
from pathlib import Path

import pytest

from bendybus.partition_server.store.records import Changes, Row, SessionState, SlotState, row_id
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.partition_server.store.store import Store
from tests.partition_server.driver import fingerprint
from tests.partition_server.memory_store import MemoryStore


def row(counter: int, state: int, session_id: str) -> Row:
    return Row(row_id(1, counter), state, 1, None, 0, 0, 0, "", "", session_id, b"x")


@pytest.mark.requirement("R348")
@pytest.mark.parametrize("seed", range(30))
def test_lists_of_sessions_are_the_same_in_both_stores(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    counters = range(1, chance.randint(2, 12))
    rows = [row(n, chance.choice([0, 0, 1, 2]), chance.choice("abcdefgh")) for n in counters]
    names = chance.sample("abcdefghij", chance.randint(0, 6))
    states = [SessionState(1, name, b"s", chance.randint(1, 9)) for name in names]
    slot = SlotState(1, "uid")
    slot.by_session = True
    file = SqliteStore(tmp_path, fingerprint())
    stores: list[Store] = [MemoryStore(fingerprint()), file]
    for store in stores:
        store.open()
        store.commit(Changes(inserts=rows, session_states=states, slots={1: slot}))

    for limit in (1, 2, 3, 20):
        found = []
        for store in stores:
            pages: list[list[str]] = []
            after = None
            while not pages or after is not None:
                page, after = store.sessions.listed(1, after, limit)
                assert len(page) <= limit
                pages.append(page)
            found.append(pages)
        active = {each.session_id or "" for each in rows if not each.state}
        assert found[0] == found[1]
        assert [*itertools.chain(*found[0])] == sorted(active | set(names))
    file.close()
