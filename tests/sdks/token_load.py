"""`make sdk-tokens`: programs on the SDKs of other languages, for ten minutes, with tokens of 90 s.

Each program sends, receives and completes, and holds some messages, on a Standard bus with TLS,
with tokens that it signs when its SDK asks for one. In the middle the front end is drained and
replaced, and a partition is killed and started again. Nothing that was acknowledged may be lost,
and what is held is completed after that. Prints figures, and what is not as promised.
"""

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bendybus.client import ServiceBusMessage
from bendybus.domain import limits, partitioning
from bendybus.domain.limits import Tier
from tests.azure_sdk.live_bus import AMQPS_PORT
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, loopback_address
from tests.sdks.programs import PROGRAMS, Program

HELD: Final = 5
# For what was sent last, and for locks of messages that a front end had handed over.
REST_S: Final = 60.0
DEAD_S: Final = 2.0
# What is held is not on the partition that is killed: what that had locked is free afterwards.
KEPT_KEY: Final = "kept"
_KEPT: Final = partitioning.partition_of(KEPT_KEY, limits.STANDARD_PARTITION_COUNT)
KILLED: Final = (_KEPT + 1) % limits.STANDARD_PARTITION_COUNT


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How long programs send, how long tokens are good, when things break; in seconds."""

    seconds: float
    lives: int

    @property
    def drains_s(self) -> float:
        """When the front end is drained."""
        return self.seconds * 0.3

    @property
    def kills_s(self) -> float:
        """When a partition is killed."""
        return self.seconds * 0.4

    @property
    def holds_s(self) -> float:
        """When what is held is completed: before its locks of five minutes end."""
        return min(self.seconds * 0.75, 270.0)


class TokenBus:
    """A bus with two queues for the program of each SDK."""

    def __init__(self, folder: Path, sdks: Sequence[str]) -> None:
        self.address = loopback_address(AMQPS_PORT)
        self.secured = SecuredBus(
            folder,
            addresses=(HOST, self.address),
            partitions=limits.STANDARD_PARTITION_COUNT,
            tier=Tier.STANDARD,
            front_end_options=(f"--amqps-listen={self.address}:{AMQPS_PORT}",),
        )
        with self.secured.administration() as administration:
            for sdk in sdks:
                for kind, lock in (("load", "PT10S"), ("held", "PT5M")):
                    administration.create_queue(
                        f"{kind}-{sdk}", enable_partitioning=True, lock_duration=lock
                    )
        with self.secured.client() as client:
            for sdk in sdks:
                with client.get_queue_sender(f"held-{sdk}") as sender:
                    for number in range(HELD):
                        body = f"held {number}"
                        sender.send_messages(ServiceBusMessage(body, partition_key=KEPT_KEY))

    def left(self, sdk: str) -> int:
        """Return how many messages are still counted."""
        with self.secured.administration() as administration:
            counted = administration.get_queue_runtime_properties
            return sum(counted(f"{kind}-{sdk}").total_message_count for kind in ("load", "held"))

    def disturb(self, plan: "Plan") -> None:
        """Replace the front end, then kill a partition and start it again."""
        bus = self.secured.bus
        time.sleep(plan.drains_s)
        bus.front_end.terminate()
        bus.start_front_end()
        time.sleep(plan.kills_s - plan.drains_s)
        bus.partitions[KILLED].kill()
        time.sleep(DEAD_S)
        bus.start_partition(KILLED)


def started(program: Program, bus: TokenBus, plan: Plan) -> "subprocess.Popen[str]":
    """Start a program on its load."""
    process = program.opened(program.tokens, str(bus.secured.ca_file))
    assert process.stdin is not None
    asked = {
        "address": bus.address,
        "queues": {kind: f"{kind}-{program.sdk}" for kind in ("load", "held")},
        "policy": ROOT_POLICY,
        "key": ROOT_KEY,
        "lives": plan.lives,
        "seconds": plan.seconds,
        "rest": REST_S,
        "pause": 0.1,
        "held": HELD,
        "holds": plan.holds_s,
    }
    process.stdin.write(json.dumps(asked))
    process.stdin.close()
    return process


def wrong(answer: Mapping[str, Any], plan: Plan, left: int) -> list[str]:
    """Return what is not as promised."""
    sent, completed = set(answer["acknowledged"]), set(answer["completed"])
    found = []
    if lost := sent - completed:
        found.append(f"{len(lost)} lost: {sorted(lost)[:5]}")
    if unknown := completed - sent - set(answer["unsure"]):
        found.append(f"{len(unknown)} never sent: {sorted(unknown)[:5]}")
    if len(answer["held"]) != HELD:
        found.append(f"{len(answer['held'])} of {HELD} held messages were completed")
    if not sent:
        found.append("nothing was sent")
    if answer["tokens"] < plan.seconds // plan.lives:
        found.append(f"only {answer['tokens']} tokens were signed")
    if left:
        found.append(f"{left} messages are left")
    return found


def figures(answer: Mapping[str, Any]) -> str:
    """Return how much was done."""
    repeated = sum(count - 1 for count in answer["completed"].values())
    return (
        f"{len(answer['acknowledged'])} acknowledged, {len(answer['completed'])} completed, "
        f"{repeated} of them again, {len(answer['unsure'])} unsure, {len(answer['held'])} held, "
        f"{answer['tokens']} tokens, {len(answer['errors'])} errors"
    )


def run(folder: Path, programs: Sequence[Program], plan: Plan) -> dict[str, tuple[Any, list[str]]]:
    """Run programs; return, by SDK, what each says and what is not as promised."""
    for program in programs:
        program.built()
    bus = TokenBus(folder, [program.sdk for program in programs])
    processes = {program.sdk: started(program, bus, plan) for program in programs}
    try:
        bus.disturb(plan)
        return {sdk: judged(sdk, process, bus, plan) for sdk, process in processes.items()}
    finally:
        for process in processes.values():
            with process:
                process.kill()
        bus.secured.end()


def judged(
    sdk: str, process: "subprocess.Popen[str]", bus: TokenBus, plan: Plan
) -> tuple[Any, list[str]]:
    """Wait for a program; return what it says, and what is not as promised."""
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    # SDKs do not wait until what they settle is settled.
    with contextlib.suppress(AssertionError):
        eventually(lambda: bus.left(sdk) == 0, within_s=15)
    return answer, wrong(answer, plan, bus.left(sdk))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 1 if something is not as promised."""
    parser = argparse.ArgumentParser(prog="make sdk-tokens ARGS=…", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long programs send")
    parser.add_argument("--lives", type=int, default=90, help="how long tokens are good, in s")
    parser.add_argument("--sdk", action="append", help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    chosen = [each for each in PROGRAMS if not options.sdk or each.sdk in options.sdk]
    plan = Plan(options.seconds, options.lives)
    with tempfile.TemporaryDirectory(prefix="bendybus-sdk-tokens-") as folder:
        found = run(Path(folder), chosen, plan)
    count = 0
    for sdk, (answer, faults) in found.items():
        print(f"{sdk}: {figures(answer)}")
        for line in answer["errors"][:10]:
            print(f"  {line[:200]}")
        for line in faults:
            print(f"WRONG {sdk}: {line}", file=sys.stderr)
        count += len(faults)
    print(f"sdk-tokens: {count} wrong" if count else "sdk-tokens: nothing lost")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
