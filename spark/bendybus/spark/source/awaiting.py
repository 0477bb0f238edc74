"""Waiting for partitions without which a read cannot be planned, for a bounded time."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.option_values import EARLIEST, Position
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import positions
from bendybus.spark.source.ranges import Extent

logger = logging.getLogger(__name__)
LOOK_S: Final = 0.5


def extents(
    look: Callable[[], list[Extent]],
    wanted: Sequence[Position],
    options: ReadOptions,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> list[Extent]:
    """Return the extents once these positions are known. Raises PipelineError, OptionError."""
    until = clock() + options.timeout_s
    while True:
        found = look()
        path = options.entity.path
        positions.check("startingOffsets", options.starting, found, path)
        positions.check("endingOffsets", options.ending, found, path)
        missing = [
            extent
            for extent in found
            if any(positions.unknown(position, extent, EARLIEST) for position in wanted)
        ]
        if not missing:
            _check_start(options, found)
            return found
        if clock() >= until:
            raise PipelineError(
                f"{path}, partition {missing[0].partition}: is unavailable, and where to read it "
                f"is not known without it: {missing[0].unavailable} Try again when it is there, "
                "or set a longer timeout."
            )
        sleep(LOOK_S)


def _check_start(options: ReadOptions, found: list[Extent]) -> None:
    """Raise OptionError for a start beyond the end; log it where losses are no failures."""
    for sentence in positions.beyond(options.starting, found, options.entity.path):
        if options.fail_on_data_loss:
            raise OptionError(
                f"{sentence}. Name a number that was enqueued, or -1 for what comes; or set "
                "failOnDataLoss=false to read from the end on."
            )
        logger.warning("%s; it is read from its end on", sentence)
