"""What every server does the same way."""

import json
import logging

from bendybus.wire.serving import JsonFormatter


def test_a_log_line_is_json_that_names_entity_partition_and_action() -> None:
    record = logging.makeLogRecord(
        {
            "name": "bendybus.test",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "queue %s: full",
            "args": ("orders",),
            "entity": "orders",
            "partition": 3,
            "action": "refuse",
        }
    )

    line = JsonFormatter().format(record)

    facts = json.loads(line)
    assert "\n" not in line
    assert facts["message"] == "queue orders: full"
    assert (facts["level"], facts["entity"], facts["partition"], facts["action"]) == (
        "warning",
        "orders",
        3,
        "refuse",
    )
