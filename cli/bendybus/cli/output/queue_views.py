"""Queues as table rows and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf import json_format

from bendybus.cli.output import printing, rule_views
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column
from bendybus.crds.bundle import KINDS
from bendybus.domain import durations, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityState
from bendybus.domain.setting import SettingType
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

# Columns of `-o wide`, after those of the kind. TRANSFER: sent to other entities in transactions,
# on its way; TRANSFER-DEAD: could not be forwarded.
WIDE: Final[tuple[str | Column, ...]] = (
    "TRANSFER",
    "TRANSFER-DEAD",
    Column("FORWARD-TO", text=True),
    "ORIGIN",
    "SIZE",
)


def show(queues: Sequence[pb.Queue], output: Output) -> None:
    """Print queues with their counts."""
    if output.structured:
        for queue in queues:
            printing.structured(as_json(queue), output)
        return
    wide = output is Output.WIDE
    columns: list[str | Column] = [Column("NAME", text=True), "PARTITIONS", "STATUS", "AVAILABLE"]
    columns += ["ACTIVE", "DEAD", "SCHEDULED"]
    columns += ["DEFERRED", "LOCKED", *WIDE, "MAX-SIZE", "HOME"] if wide else []
    printing.table(columns, [_row(queue, wide) for queue in queues])


def _row(queue: pb.Queue, wide: bool) -> list[object]:
    counts = queue.runtime.count_details
    # What no partition counted is not 0.
    known = any(part.reachable for part in queue.runtime.partitions)
    row: list[object] = [
        queue.name,
        queue.partition_count,
        status(queue),
        availability(queue),
        counts.active_message_count if known else None,
        counts.dead_letter_message_count if known else None,
        counts.scheduled_message_count if known else None,
    ]
    if wide:
        row += [
            counts.deferred_message_count if known else None,
            counts.locked_message_count if known else None,
            *wide_cells(queue),
            largest(queue),
            queue.home_partition if queue.partition_count == 1 else None,
        ]
    return row


def wide_cells(entity: Any) -> list[object]:
    """Return the cells of the columns WIDE, of an entity of any kind that holds messages."""
    held, described = entity.runtime, entity.description
    known = any(part.reachable for part in held.partitions)
    return [
        held.count_details.transfer_message_count if known else None,
        held.count_details.transfer_dead_letter_message_count if known else None,
        described.forward_to or None,
        entities.origin_from_proto(entity.origin).value,
        printing.size(held.size_in_bytes) if known else None,
    ]


def largest(entity: Any) -> str | None:
    """Return the size that an entity may have on all its partitions together."""
    most = entity.runtime.max_size_in_megabytes_total
    return printing.size(most * limits.MB) if most else None


def status(queue: Any) -> str:
    """Return the status of an entity of any kind."""
    if queue.orphaned:
        return EntityState.ORPHANED.value
    return str(entities.description_from_proto(queue.description).status.value)


def availability(queue: Any) -> str:
    """Return whether the partitions of an entity of any kind answer."""
    limited = pb.ENTITY_AVAILABILITY_STATUS_LIMITED
    if queue.runtime.availability_status == limited:
        return "Limited" if any(part.reachable for part in queue.runtime.partitions) else "No"
    return "Available"


def as_json(queue: pb.Queue) -> dict[str, Any]:
    """Return the queue with the names of manifests, durations as text."""
    return {
        "kind": KINDS[EntityKind.QUEUE],
        "name": queue.name,
        "uid": queue.uid,
        "generation": queue.generation,
        "origin": entities.origin_from_proto(queue.origin).value,
        "orphaned": queue.orphaned,
        "partitionCount": queue.partition_count,
        "homePartition": queue.home_partition if queue.partition_count == 1 else None,
        "spec": settings(queue),
        "availabilityStatus": availability(queue),
        "runtime": runtime(queue),
    }


def settings(entity: Any) -> dict[str, Any]:
    """Return the settings of an entity of any kind, with the names of manifests."""
    described = entities.description_from_proto(entity.description)
    spec: dict[str, Any] = {}
    for setting in entity_settings.BY_KIND[described.kind]:
        value = getattr(described, setting.name)
        if setting.type is SettingType.RULES:
            if not entity.description.HasField(setting.name):
                # Not in lists.
                continue
            value = [rule_views.as_json(each) for each in value]
        duration = setting.type is SettingType.DURATION
        spec[setting.manifest_name] = durations.render(value) if duration else value
    return spec


def runtime(queue: Any) -> dict[str, Any]:
    """Return counts of any kind of entity as numbers: protobuf writes 64-bit integers as text."""
    held = queue.runtime
    return {
        "countDetails": _counts(held.count_details),
        "sizeInBytes": held.size_in_bytes,
        "maxSizeInMegabytesTotal": held.max_size_in_megabytes_total,
        "partitions": [
            {
                "partition": each.partition,
                "reachable": each.reachable,
                "countDetails": _counts(each.count_details),
                "sizeInBytes": each.size_in_bytes,
            }
            for each in held.partitions
        ],
    }


def _counts(counts: pb.MessageCountDetails) -> dict[str, int]:
    names = json_format.MessageToDict(counts, always_print_fields_with_no_presence=True)
    return {name: int(value) for name, value in names.items()}


def share(part: pb.PartitionRuntime) -> list[object]:
    """Return the table row of a queue's share on one partition."""
    counts = part.count_details
    if not part.reachable:
        return [part.partition, False, None, None, None, None, None]
    return [
        part.partition,
        True,
        counts.active_message_count,
        counts.dead_letter_message_count,
        counts.scheduled_message_count,
        counts.deferred_message_count,
        printing.size(part.size_in_bytes),
    ]
