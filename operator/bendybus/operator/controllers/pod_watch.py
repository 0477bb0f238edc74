"""Looks now and then why the pods of a bus do not run, while some do not."""

import asyncio
import logging
from typing import Final

from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.decisions.pod_troubles import PodTrouble
from bendybus.operator.kubernetes.api import ApiError
from bendybus.operator.kubernetes.names import ObjectKey

logger = logging.getLogger(__name__)
EVERY_S: Final = 5.0


class PodWatch:
    """The troubles of one bus's pods, as of the last look."""

    def __init__(self, bus: ObjectKey, buses: BusReconciler) -> None:
        self.troubles: list[PodTrouble] = []
        self._bus = bus
        self._buses = buses
        self._due_s = 0.0

    async def look(self, *, all_run: bool) -> None:
        """List the pods if it is time to, unless all of them run."""
        now_s = asyncio.get_running_loop().time()
        if all_run:
            self.troubles = []
        elif now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            try:
                self.troubles = await self._buses.pod_troubles(self._bus)
            except ApiError as error:
                logger.warning("bus %s: its pods cannot be listed: %s", self._bus, error.message)
