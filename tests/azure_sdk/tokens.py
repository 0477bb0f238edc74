"""`make azure-tokens`: run azure-servicebus for ten minutes with tokens that expire after 90 s.

On a bus with TLS, policies and 16 partitions, synchronous and asynchronous clients send, schedule,
cancel, receive, renew and complete: on partitioned queues, in sessions and on topics. Some pause
for longer than the lifetime of a token. No client may get an error; every acknowledged message must
be received and completed once. Prints totals and violations.
"""

import argparse
import datetime as dt
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bendybus.client.management import ServiceBusAdministrationClient
from tests.azure_sdk import live_bus
from tests.azure_sdk.token_ledger import Ledger
from tests.azure_sdk.token_load import SUBSCRIPTION, Clock, Plan, SyncLoad, Target
from tests.azure_sdk.token_load_aio import AsyncLoad

SURFACES: Final = ("sync", "aio")


def create(made: ServiceBusAdministrationClient, **given: Any) -> None:
    """Create the entities of the load; `given`: more of their settings."""
    locked, held = dt.timedelta(seconds=30), dt.timedelta(minutes=5)
    for surface in SURFACES:
        for kind, lock in (("queue", locked), ("sessions", locked), ("rest", held)):
            made.create_queue(
                f"{kind}-{surface}",
                requires_session=kind == "sessions",
                lock_duration=lock,
                **given,
            )
        made.create_topic(f"topic-{surface}", **given)
        made.create_subscription(f"topic-{surface}", SUBSCRIPTION, lock_duration=locked)


def left(made: ServiceBusAdministrationClient) -> dict[str, int]:
    """Return how many messages entities of the load still count."""
    found = {
        f"{kind}-{surface}": made.get_queue_runtime_properties(
            f"{kind}-{surface}"
        ).total_message_count
        for kind in ("queue", "sessions", "rest")
        for surface in SURFACES
    }
    for surface in SURFACES:
        topic = f"topic-{surface}"
        found[topic] = made.get_subscription_runtime_properties(
            topic, SUBSCRIPTION
        ).total_message_count
    return found


def run(target: Target, made: ServiceBusAdministrationClient, plan: Plan) -> tuple[str, list[str]]:
    """Run the load on entities that exist; return figures, and what is not as promised."""
    ledger = Ledger()
    clock = Clock(plan, ledger)
    loads = (
        SyncLoad(target, plan, ledger, clock),
        AsyncLoad(target, plan, ledger, clock),
    )
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signed = [each.signed for load in loads for each in load.credentials]
    wrong = ledger.wrong(left(made))
    if min(signed) < plan.tokens_min:
        wrong.append(f"a client put {min(signed)} tokens, and not {plan.tokens_min} or more")
    said = f"{sum(signed)} tokens of {plan.lives_s} s by {len(signed)} clients that never rest"
    return f"{ledger.figures()}\n{said}", wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 1 if something is not as promised, 2 if it could not run."""
    parser = argparse.ArgumentParser(prog="make azure-tokens ARGS=…", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long clients send")
    parser.add_argument("--lives", type=int, default=90, help="how long tokens are good, in s")
    options = parser.parse_args(arguments)
    plan = Plan(options.seconds, options.lives)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bendybus-azure-tokens-") as folder,
            live_bus.started(Path(folder)) as file,
        ):
            facts = live_bus.read(file)
            target = Target(facts.address, facts.token, {"connection_verify": facts.ca_file})
            with facts.administration() as made:
                create(made, enable_partitioning=True)
                figures, wrong = run(target, made, plan)
    except live_bus.CannotListen as error:
        print(f"azure-tokens: {error}", file=sys.stderr)
        return 2
    print(figures)
    for line in wrong:
        print(f"WRONG {line}", file=sys.stderr)
    print(f"azure-tokens: {len(wrong)} wrong" if wrong else "azure-tokens: nothing lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
