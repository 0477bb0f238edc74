"""One section of a run, in a process of its own: `python -m bench.measuring NAME`.

Prints a JSON line for each row as soon as it is known. A process of its own because one section's
threads, event loops and garbage would be in another's figures.
"""

import argparse
import dataclasses
import importlib
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NoReturn

from bench.loads import QUICK, Loads
from bench.row import Row

# In this order, so that Bendybus runs right after what it is compared with.
SECTIONS: Final = {
    "bare": "bench.bare.measure",
    "bendybus": "bench.bus.measure",
    "amqp": "bench.amqp.measure",
    "many": "bench.many.measure",
    "sdks": "bench.sdks.measure",
    "entities": "bench.bus.entities",
    "brokers": "bench.bus.brokers",
    "idle": "bench.bus.idle",
    "rabbitmq": "bench.peers.rabbitmq",
    "nats": "bench.peers.nats_jetstream",
    "redis": "bench.peers.redis_streams",
    "artemis": "bench.peers.artemis",
    "kafka": "bench.peers.kafka",
}


def main() -> int:
    """Run the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--amqp-seconds", type=float)
    chosen = parser.parse_args()
    # As an exception, so that what was started is ended.
    signal.signal(signal.SIGTERM, _stop)
    measure = importlib.import_module(SECTIONS[chosen.section]).measure
    with tempfile.TemporaryDirectory(prefix="bendybus-bench-") as folder:
        measure(chosen_load(chosen.quick, chosen.amqp_seconds), Path(folder), _emit)
    return 0


def chosen_load(quick: bool, amqp_s: float | None) -> Loads:
    """Return how much work is to be done; `amqp_s` None: as usual."""
    load = QUICK if quick else Loads()
    return load if amqp_s is None else dataclasses.replace(load, amqp_s=amqp_s)


def _emit(row: Row) -> None:
    print(json.dumps(row.to_json()), flush=True)


def _stop(number: int, frame: Any) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
