"""AutoDeleteOnIdle: looks at the entities that have an interval, and deletes the idle ones."""

import asyncio
import logging

from bendybus.domain.directory import Directory
from bendybus.domain.errors import BusError
from bendybus.frontend.core.manage import EntityManager

logger = logging.getLogger(__name__)


async def run(manager: EntityManager, directory: Directory, every_s: float) -> None:
    """Look at idle entities until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for entity in directory.live():
            if entity.description.auto_delete_on_idle_ms is None:
                continue
            try:
                deleted = await manager.delete_if_idle(entity)
            except BusError as error:
                logger.info(
                    "%s %s: not deleted as idle: %s", entity.kind, entity.name, error.message
                )
                continue
            if deleted:
                logger.info(
                    "%s %s: deleted after %d ms without use",
                    entity.kind,
                    entity.name,
                    entity.description.auto_delete_on_idle_ms,
                    extra={"entity": entity.name, "action": "auto-delete"},
                )
