"""What an entity accepts at the moment."""

from enum import StrEnum


class EntityStatus(StrEnum):
    """Which operations on its messages an entity accepts."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def sends(self) -> bool:
        """Whether messages may be sent."""
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def receives(self) -> bool:
        """Whether messages may be received."""
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)
