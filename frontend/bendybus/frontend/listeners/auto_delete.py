"""AutoDeleteOnIdle: fences an entity on every partition, then lets the registrar delete it.

A partition that cannot be asked counts as busy. A fence refuses traffic for a moment, so that no
message is acknowledged between the last look and the deletion; it lapses by itself if any
partition says that the entity was used.
"""

import asyncio
import logging

import grpc

from bendybus.domain.entity import Entity
from bendybus.frontend.core.gateway import Gateway
from bendybus.frontend.listeners.management_service import REGISTRAR
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import entities

logger = logging.getLogger(__name__)


async def run(gateway: Gateway) -> None:
    """Look after idle entities until cancelled."""
    while True:
        await asyncio.sleep(gateway.settings.idle_check_s)
        for entity in gateway.directory.live():
            if entity.queue.auto_delete_on_idle_ms is not None:
                await delete_if_idle(gateway, entity)


async def delete_if_idle(gateway: Gateway, entity: Entity) -> bool:
    """Delete an entity that was idle for its interval everywhere; return whether it was."""
    idle_ms = entity.queue.auto_delete_on_idle_ms
    assert idle_ms is not None
    timeout_s = gateway.settings.unary_timeout_s
    partitions = {REGISTRAR, *entity.partitions()}
    if not all(gateway.upstreams[partition].available for partition in partitions):
        return False
    try:
        for partition in sorted(partitions):
            answer = await gateway.upstreams[partition].catalogue_calls.FenceIdleEntity(
                entity_pb2.FenceIdleEntityRequest(
                    partition=partition,
                    uid=entity.uid,
                    generation=entity.generation,
                    idle_ms=idle_ms,
                ),
                timeout=timeout_s,
            )
            if not answer.fenced:
                return False
        response = await gateway.upstreams[REGISTRAR].catalogue_calls.CommitEntity(
            entity_pb2.CommitEntityRequest(
                partition=REGISTRAR,
                action=entity_pb2.ENTITY_ACTION_DELETE_IDLE,
                name=entity.name,
                uid=entity.uid,
                if_generation=entity.generation,
            ),
            timeout=timeout_s,
        )
        tombstone = entities.entity_from_proto(response.entity)
        for partition in gateway.upstreams:
            await gateway.apply(partition, tombstone)
    except grpc.RpcError as error:
        logger.info("queue %s: not deleted as idle: %s", entity.name, error.details())
        return False
    logger.info(
        "queue %s: deleted after %d ms without use",
        entity.name,
        idle_ms,
        extra={"entity": entity.name, "action": "auto-delete"},
    )
    return True
