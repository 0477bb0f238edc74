"""What is logged of an outage of a connection: one warning, and one line when it is over.

All streams of a connection share a channel, so they break together, and again with each attempt to
reconnect. Those lines are of level DEBUG.
"""

import logging
from typing import Final

_log = logging.getLogger("bendybus.client")
# While an outage lasts, it is logged again after this time.
SAY_AGAIN_S: Final = 60.0


class Outage:
    """The streams of a connection that are away, and since when. On the I/O thread only."""

    def __init__(self, target: str = "the bus") -> None:
        self._target = target
        self._away: set[int] = set()
        self._began_s: float | None = None
        self._say_s = 0.0
        self._tries = 0

    def broke(self, stream: object, name: str, pause_s: float, why: str, now_s: float) -> None:
        """Note that a stream broke, or could not be opened, and is opened again."""
        self._away.add(id(stream))
        self._tries += 1
        if self._began_s is None:
            self._began_s, self._tries = now_s, 1
            self._say_s = now_s + SAY_AGAIN_S
            _log.warning("client: %s broke, reconnecting in %.1f s: %s", name, pause_s, why)
        elif now_s >= self._say_s:
            self._say_s = now_s + SAY_AGAIN_S
            _log.warning(
                "client: %s is away for %.0f s, %d tries: %s",
                *(self._target, now_s - self._began_s, self._tries, why),
            )
        else:
            _log.debug("client: %s broke, reconnecting in %.1f s: %s", name, pause_s, why)

    def back(self, stream: object, name: str, now_s: float) -> None:
        """Note that the bus answers on a stream: the outage is over if no other one is away."""
        self._away.discard(id(stream))
        if self._began_s is None or self._away:
            return
        # As loud as the line that it belongs to.
        _log.warning("client: %s is back after %.1f s", name, now_s - self._began_s)
        self._began_s = None

    def ended(self, stream: object) -> None:
        """Note that a stream is not opened for now; the outage lasts until one is answered."""
        self._away.discard(id(stream))
