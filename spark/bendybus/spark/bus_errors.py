"""Errors of the bus as errors for Spark's user. Not in errors.py: it loads the client."""

import contextlib
from collections.abc import Iterator
from typing import Final

from bendybus.client import exceptions
from bendybus.client.exceptions import InvalidArgumentError, ServiceBusError
from bendybus.spark import errors
from bendybus.spark.errors import LeaseLostError, PipelineError

RETRYABLE: Final = (
    exceptions.ServiceBusCommunicationError,
    exceptions.ServiceBusConnectionError,
    exceptions.ServiceBusServerBusyError,
    exceptions.OperationTimeoutError,
)


@contextlib.contextmanager
def shown(entity: str) -> Iterator[None]:
    """Turn errors of the bus into errors for Spark's user, and hide the traceback of both."""
    with errors.shown(), translated(entity):
        yield


@contextlib.contextmanager
def translated(entity: str) -> Iterator[None]:
    """Turn errors of the bus into errors for Spark's user."""
    try:
        yield
    except (ServiceBusError, InvalidArgumentError) as error:
        raise of_bus(entity, error) from error


def of_bus(entity: str, error: ServiceBusError | InvalidArgumentError) -> PipelineError:
    """Return what a user is told of an error of the bus."""
    text = one_line(error.message)
    where = f"{entity}: " if entity and entity not in text else ""
    kind = LeaseLostError if isinstance(error, exceptions.DrainLeaseLostError) else PipelineError
    return kind(f"{where}{text}{_ADVICE.get(type(error), '')}")


def one_line(text: str) -> str:
    """Return a text as one line: Spark's users read the first one."""
    return " ".join(text.split())


_ADVICE: Final[dict[type[Exception], str]] = {
    exceptions.MessagingEntityNotFoundError: (" Check the options queue, topic and subscription."),
    exceptions.ServiceBusAuthenticationError: (
        " Check the option connectionStringFile or tokenFile on the driver and on the executors."
    ),
    exceptions.ServiceBusConnectionError: (
        " Check the address in the connection options, and that driver and executors reach it."
    ),
}
