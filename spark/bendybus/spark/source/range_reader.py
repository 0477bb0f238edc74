"""The pages of one range, with the next one on its way while one is decoded."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bendybus.client.exceptions import ServiceBusError
from bendybus.spark.bus_errors import RETRYABLE, one_line
from bendybus.spark.errors import DataLossError, PipelineError
from bendybus.spark.source.bus import Bus, Page
from bendybus.spark.source.offsets import beginning
from bendybus.spark.source.ranges import Range

logger = logging.getLogger(__name__)
PAUSE_S: Final = 0.5


class RangeReader:
    """Reads one range. A partition that is unavailable is waited for, within the timeout."""

    def __init__(
        self,
        bus: Bus,
        path: str,
        *,
        timeout_s: float,
        fail_on_data_loss: bool,
        bodies: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bus = bus
        self._path = path
        self._timeout_s = timeout_s
        self._fail_on_data_loss = fail_on_data_loss
        self._bodies = bodies
        self._clock = clock
        self._sleep = sleep

    def pages(self, wanted: Range) -> Iterator[Page]:
        """Yield the pages. Raises PipelineError."""
        with ThreadPoolExecutor(1, "bendybus-pages") as ahead:
            after = wanted.after
            coming = ahead.submit(self._page, wanted, after)
            while True:
                page = coming.result()
                if not self._holds(wanted, page, after):
                    return
                after = page.next_after
                if page.complete or after >= wanted.upto:
                    yield page
                    return
                coming = ahead.submit(self._page, wanted, after)
                yield page

    def _page(self, wanted: Range, after: int) -> Page:
        until = self._clock() + self._timeout_s
        while True:
            try:
                return self._bus.page(wanted.partition, after, wanted.upto, bodies=self._bodies)
            except RETRYABLE as error:
                if self._clock() >= until:
                    raise self._unavailable(wanted, error) from error
                self._sleep(PAUSE_S)

    def _unavailable(self, wanted: Range, error: ServiceBusError) -> PipelineError:
        return PipelineError(
            f"{self._path}, partition {wanted.partition}: could not be read for "
            f"{self._timeout_s:g} s: {one_line(error.message)} Start the query again when it is "
            "there, or set a longer timeout."
        )

    def _holds(self, wanted: Range, page: Page, after: int) -> bool:
        """Whether the range is the one that was planned. Raises DataLossError."""
        where = f"{self._path}, partition {wanted.partition}"
        advice = "Set failOnDataLoss=false to go on with what is there."
        if wanted.incarnation and page.incarnation != wanted.incarnation:
            if self._fail_on_data_loss:
                raise DataLossError(
                    f"{where}: was recreated or restored while it was read. {advice}"
                )
            logger.warning("%s: was recreated or restored; the rest of its range is lost", where)
            return False
        gone = max(after, wanted.gone, beginning(wanted.partition))
        if page.low_watermark > gone and self._fail_on_data_loss:
            raise DataLossError(
                f"{where}: messages up to {page.low_watermark} expired or were purged before "
                f"those after {after} were read. {advice}"
            )
        return True
