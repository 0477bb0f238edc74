"""Deletes the volumes of buses whose manifests were deleted with deletionPolicy Delete."""

import asyncio
import logging
from typing import Final

from bendybus.domain.backoff import Backoff
from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.decisions.manifests import BusView
from bendybus.operator.kubernetes.api import ApiError

logger = logging.getLogger(__name__)
# Five minutes of attempts.
RETRY: Final = Backoff(first_s=1.0, max_s=30.0)
ATTEMPTS_MAX: Final = 15


class VolumeDeletions:
    """The deletions that are carried out now, each in a task of its own."""

    def __init__(self, buses: BusReconciler) -> None:
        self._buses = buses
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, view: BusView) -> None:
        """Delete the volumes of a bus, with several attempts."""
        task = asyncio.create_task(self._delete(view), name=f"forget-{view.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete(self, view: BusView) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await self._buses.forget(view)
            except ApiError as error:
                last = error.final or attempt == ATTEMPTS_MAX
                logger.log(
                    logging.ERROR if last else logging.WARNING,
                    "bus %s: volumes not deleted; %s: %s",
                    view.key,
                    "they remain" if last else "retrying",
                    error.message,
                    extra={"action": "forget"},
                )
                if last:
                    return
            await asyncio.sleep(RETRY.delay_s(attempt))
