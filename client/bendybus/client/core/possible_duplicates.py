"""Sends that are stored and may be stored twice: their message ids, and what is logged of them."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from bendybus.client.core.send_queue import Unit

IDS_MAX: Final = 10_000
# At most one log line in this time.
LOG_S: Final = 10.0

_log = logging.getLogger("bendybus.client")


class PossibleDuplicates:
    """The last message ids of a connection that may be stored twice. On the I/O thread only."""

    def __init__(self) -> None:
        # (entity, message id)
        self.ids: deque[tuple[str, str]] = deque(maxlen=IDS_MAX)
        self._not_logged = 0
        self._log_s = 0.0

    def add(self, units: Sequence[Unit], now_s: float) -> None:
        """Add the messages of units of one entity."""
        for unit in units:
            ids = unit.columns.message_ids
            self.ids.extend((unit.entity_path, each) for each in ids)
            self._not_logged += len(ids)
        if now_s < self._log_s:
            return
        self._log_s = now_s + LOG_S
        entity = units[0].entity_path
        _log.warning(
            "sender of %s: possible duplicates: %d since the last report; a partition that "
            "may have stored them did not return in time, so another one stored them",
            *(entity, self._not_logged),
            extra={"entity": entity, "action": "possible-duplicates"},
        )
        self._not_logged = 0
