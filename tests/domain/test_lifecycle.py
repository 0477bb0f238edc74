"""The table of an entity's life, and its diagram."""

from itertools import product

import pytest

from bendybus.domain import errors, lifecycle
from bendybus.domain.lifecycle import EntityAction, EntityState


def test_the_table_says_something_for_every_state_and_action() -> None:
    assert set(lifecycle.TRANSITIONS) == set(product(EntityState, EntityAction))


@pytest.mark.parametrize("pair", lifecycle.TRANSITIONS, ids=lambda pair: "-".join(map(str, pair)))
def test_what_the_table_refuses_has_a_sentence(pair: tuple[EntityState, EntityAction]) -> None:
    state, action = pair
    found = lifecycle.TRANSITIONS[pair]

    if isinstance(found, EntityState):
        assert lifecycle.after(state, action, "orders", facts={}) is found
        return
    with pytest.raises(found, match="orders") as raised:
        lifecycle.after(state, action, "orders", facts={"uid": "u"})
    assert raised.value.metadata == {"entity": "orders", "uid": "u"}
    assert not raised.value.retryable


def test_only_an_explicit_action_ends_an_orphan() -> None:
    ends = {
        action
        for (state, action), following in lifecycle.TRANSITIONS.items()
        if state is EntityState.ORPHANED and following not in (EntityState.ORPHANED,)
        if isinstance(following, EntityState)
    }

    assert ends == {EntityAction.ADOPT, EntityAction.DELETE}


def test_nothing_but_a_creation_follows_a_tombstone() -> None:
    leads = {
        action
        for (state, action), following in lifecycle.TRANSITIONS.items()
        if state is EntityState.DELETED and isinstance(following, EntityState)
    }

    assert leads == {EntityAction.CREATE}


def test_senders_to_an_orphan_are_told_not_to_try_again() -> None:
    error = lifecycle.refuse_sends("orders")

    assert isinstance(error, errors.EntityOrphaned)
    assert not error.retryable
    assert "adopt" in error.message.lower()
    assert "purge" in error.message
