"""What front ends' streams have open in this partition, by stream: so that the end of a stream
looks at nothing of other streams."""

from typing import Any


class OpenStreams:
    """Asks, and the queues that messages are reserved from."""

    def __init__(self) -> None:
        # Stream → ask id → slot.
        self._asks: dict[Any, dict[int, int]] = {}
        # Slots that ever gave something to a stream; the locks themselves are in the queues.
        self._reserved: dict[Any, set[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._asks.values()))

    def ask_opened(self, stream: Any, ask_id: int, slot: int) -> None:
        """Note where an ask waits."""
        self._asks.setdefault(stream, {})[ask_id] = slot

    def ask_closed(self, stream: Any, ask_id: int) -> int | None:
        """Forget an ask; return the slot where it waited, None if it was not open."""
        asks = self._asks.get(stream)
        slot = None if asks is None else asks.pop(ask_id, None)
        if asks is not None and not asks:
            del self._asks[stream]
        return slot

    def slot_of_ask(self, stream: Any, ask_id: int) -> int:
        """Return the slot where an ask waits, -1 if it is not open."""
        return self._asks.get(stream, {}).get(ask_id, -1)

    def reserved(self, stream: Any, slot: int) -> None:
        """Note that messages of a slot are locked for a stream."""
        self._reserved.setdefault(stream, set()).add(slot)

    def asks_of(self, stream: Any) -> list[tuple[int, int]]:
        """Return the asks of a stream, each with its slot."""
        return list(self._asks.get(stream, {}).items())

    def slots_of(self, stream: Any) -> set[int]:
        """Return the slots that gave a stream messages.

        They are known until `forget`: a stage that is taken back is decided again.
        """
        return set(self._reserved.get(stream, ()))

    def forget(self, stream: Any) -> None:
        """Forget what a stream reserved: its end is committed, or failed for good."""
        self._reserved.pop(stream, None)
