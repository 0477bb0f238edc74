"""Tasks of Celery, as a program has them, with the bus as broker; see test_celery.

BROKER_URL names the bus, TRUSTED the file of its authority, TASKS_DONE the file that says what was
done. The queue is created by the transport of kombu, over HTTPS.
"""

import os
import time
from pathlib import Path
from typing import Any

import certifi
from celery import Celery

# The transport of kombu has no option for what its SDK trusts.
certifi.where = lambda: os.environ["TRUSTED"]
app = Celery("tasks", broker=os.environ["BROKER_URL"])
app.conf.update(
    task_default_queue="tasks",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"wait_time_seconds": 1, "peek_lock_seconds": 10},
)


def done(line: str) -> None:
    """Write that something is done."""
    with Path(os.environ["TASKS_DONE"]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@app.task
def add(one: int, other: int) -> int:
    """Add numbers."""
    done(f"add {one + other}")
    return one + other


@app.task(bind=True, max_retries=3)
def retried(self: Any) -> None:
    """Fail twice."""
    done(f"retried {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry(countdown=1)


@app.task
def slow() -> None:
    """Take a while, so that its worker can be killed."""
    done("slow began")
    time.sleep(3)
    done("slow ended")


def main() -> None:
    """Send tasks."""
    for number in range(20):
        add.delay(number, 0)
    retried.delay()
    slow.delay()


if __name__ == "__main__":
    main()
