"""Topics and subscriptions as table rows and as JSON."""

from collections.abc import Sequence
from typing import Any

from bendybus.cli.output import printing, queue_views
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

NAME = Column("NAME", text=True)


def show_topics(topics: Sequence[pb.Topic], output: Output) -> None:
    """Print topics with their counts."""
    if output.structured:
        for topic in topics:
            printing.structured(topic_as_json(topic), output)
        return
    wide = output is Output.WIDE
    columns: list[str | Column] = [
        NAME,
        "PARTITIONS",
        "STATUS",
        "AVAILABLE",
        "SUBSCRIPTIONS",
        "SCHEDULED",
    ]
    columns += ["ORIGIN", "SIZE", "MAX-SIZE", "HOME"] if wide else []
    rows = []
    for topic in topics:
        known = _known(topic)
        row: list[object] = [
            topic.name,
            topic.partition_count,
            queue_views.status(topic),
            queue_views.availability(topic),
            topic.subscription_count,
            topic.runtime.count_details.scheduled_message_count if known else None,
        ]
        if wide:
            row += [
                entities.origin_from_proto(topic.origin).value,
                printing.size(topic.runtime.size_in_bytes) if known else None,
                queue_views.largest(topic),
                topic.home_partition if topic.partition_count == 1 else None,
            ]
        rows.append(row)
    printing.table(columns, rows)


def show_subscriptions(subscriptions: Sequence[pb.Subscription], output: Output) -> None:
    """Print subscriptions with their counts."""
    if output.structured:
        for subscription in subscriptions:
            printing.structured(subscription_as_json(subscription), output)
        return
    wide = output is Output.WIDE
    columns: list[str | Column] = [
        Column("TOPIC", text=True),
        NAME,
        "STATUS",
        "AVAILABLE",
        "ACTIVE",
        "DEAD",
    ]
    # What they hold counts to the size of their topic: MAX-SIZE is there.
    columns += ["DEFERRED", "LOCKED", *queue_views.WIDE, "PARTITIONS"] if wide else []
    rows = []
    for each in subscriptions:
        known, counts = _known(each), each.runtime.count_details
        row: list[object] = [
            each.topic_name,
            each.name,
            queue_views.status(each),
            queue_views.availability(each),
            counts.active_message_count if known else None,
            counts.dead_letter_message_count if known else None,
        ]
        if wide:
            row += [
                counts.deferred_message_count if known else None,
                counts.locked_message_count if known else None,
                *queue_views.wide_cells(each),
                each.partition_count,
            ]
        rows.append(row)
    printing.table(columns, rows)


def topic_as_json(topic: pb.Topic) -> dict[str, Any]:
    """Return the topic with the names of manifests, durations as text."""
    return {
        "kind": "Topic",
        "name": topic.name,
        **_facts(topic),
        "subscriptionCount": topic.subscription_count,
        "sqlFilterCount": topic.sql_filter_count,
        "correlationFilterCount": topic.correlation_filter_count,
    }


def subscription_as_json(subscription: pb.Subscription) -> dict[str, Any]:
    """Return the subscription with the names of manifests, durations as text."""
    return {
        "kind": "Subscription",
        "topicName": subscription.topic_name,
        "name": subscription.name,
        **_facts(subscription),
    }


def _facts(entity: Any) -> dict[str, Any]:
    return {
        "uid": entity.uid,
        "generation": entity.generation,
        "origin": entities.origin_from_proto(entity.origin).value,
        "orphaned": entity.orphaned,
        "partitionCount": entity.partition_count,
        "homePartition": entity.home_partition if entity.partition_count == 1 else None,
        "spec": queue_views.settings(entity),
        "availabilityStatus": queue_views.availability(entity),
        "runtime": queue_views.runtime(entity),
    }


def _known(entity: Any) -> bool:
    """Whether any partition counted: what none did is not 0."""
    return any(part.reachable for part in entity.runtime.partitions)
