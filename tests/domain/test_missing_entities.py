"""What does not exist is named together with the command that creates it, or lists what exists."""

import pytest

from bendybus.domain import errors, lifecycle
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule_set
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.limits import Tier

pytestmark = pytest.mark.requirement("R374")


@pytest.mark.parametrize("kind", list(EntityKind))
def test_what_is_changed_or_deleted_without_being_there(kind: EntityKind) -> None:
    for action in (EntityAction.UPDATE, EntityAction.DELETE):
        with pytest.raises(errors.EntityNotFound, match=f"bendybus get {kind}s"):
            lifecycle.after(EntityState.DELETED, action, "x", facts={}, kind=kind)


@pytest.mark.parametrize(
    ("name", "command"),
    [("orders", "create queue orders"), ("news/Subscriptions/a", "create subscription news a")],
)
def test_what_is_used_without_being_there(name: str, command: str) -> None:
    directory = Directory()
    directory.update(0, Fingerprint("b", "u", Tier.STANDARD, 16, 0), [], snapshot=True)

    with pytest.raises(errors.EntityNotFound, match=f"bendybus {command},"):
        directory.find(name)


@pytest.mark.parametrize("name", ["", "a b", "/x", "x" * 261])
def test_no_command_is_named_for_what_none_can_create(name: str) -> None:
    directory = Directory()
    directory.update(0, Fingerprint("b", "u", Tier.STANDARD, 16, 0), [], snapshot=True)

    with pytest.raises(errors.EntityNotFound, match="there can be none with this name") as raised:
        directory.find(name)

    assert "bendybus" not in raised.value.message


def test_a_rule_that_is_not_there() -> None:
    with pytest.raises(errors.EntityNotFound, match=r"bendybus get rules news a\."):
        rule_set.get(rule_set.of(()), "blue", "news/Subscriptions/a")
