"""Errors over AMQP: every domain error has a condition, and the SDK raises what it should."""

import logging

import pytest
from azure.servicebus import exceptions
from azure.servicebus._pyamqp.error import AMQPLinkError
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from bendybus.amqp import encoding, performatives
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.listeners.amqp import conditions

MISSING = "The messaging entity 'sb://host/orders' could not be found."
# What azure-servicebus raises, and whether it retries.
RAISED: dict[type[BusError], tuple[type[Exception], bool]] = {
    errors.BusError: (exceptions.ServiceBusError, True),
    errors.RetryableError: (exceptions.ServiceBusServerBusyError, True),
    errors.PartitionUnavailable: (exceptions.OperationTimeoutError, True),
    errors.DiskLow: (exceptions.ServiceBusQuotaExceededError, False),
    errors.ServerBusy: (exceptions.ServiceBusServerBusyError, True),
    errors.ServiceTimeout: (exceptions.OperationTimeoutError, True),
    errors.OutcomeUnknown: (exceptions.OperationTimeoutError, True),
    errors.EntityDisabled: (exceptions.MessagingEntityDisabledError, True),
    errors.EntityDrained: (exceptions.MessagingEntityDisabledError, True),
    errors.EntityOrphaned: (exceptions.MessagingEntityDisabledError, True),
    errors.SessionCannotBeLocked: (exceptions.SessionCannotBeLockedError, True),
    errors.GenerationMismatch: (exceptions.OperationTimeoutError, True),
    errors.InvalidArgument: (exceptions.ServiceBusError, False),
    errors.InvalidOperation: (exceptions.ServiceBusError, False),
    errors.PartitioningImmutable: (exceptions.ServiceBusError, False),
    errors.ManagedByManifest: (exceptions.ServiceBusError, False),
    errors.RetainedData: (exceptions.ServiceBusError, False),
    errors.EntityNotFound: (exceptions.MessagingEntityNotFoundError, False),
    errors.EntityAlreadyExists: (exceptions.MessagingEntityAlreadyExistsError, True),
    errors.MessageNotFound: (exceptions.MessageNotFoundError, True),
    errors.MessageLockLost: (exceptions.MessageLockLostError, False),
    errors.SessionLockLost: (exceptions.SessionLockLostError, False),
    errors.DrainLeaseLost: (exceptions.ServiceBusError, False),
    errors.ProducerFenced: (exceptions.ServiceBusError, False),
    errors.MessageSizeExceeded: (exceptions.MessageSizeExceededError, False),
    errors.QuotaExceeded: (exceptions.ServiceBusQuotaExceededError, False),
    errors.Unauthenticated: (exceptions.ServiceBusAuthorizationError, False),
    errors.Unauthorized: (exceptions.ServiceBusAuthorizationError, False),
}


def made(kind: type[BusError]) -> BusError:
    if kind is errors.InvalidArgument:
        return errors.InvalidArgument("field", "is wrong.")
    return kind("It is wrong.")


def test_every_error_has_a_condition() -> None:
    assert set(conditions.CONDITIONS) == set(errors.all_errors())


@pytest.mark.parametrize("kind", errors.all_errors())
def test_the_sdk_raises_the_exception_of_the_condition(kind: type[BusError]) -> None:
    told = conditions.of(made(kind))

    raised = PyamqpTransport.create_servicebus_exception(
        logging.getLogger(),
        AMQPLinkError(told.condition.encode(), description=told.description),
    )

    expected, retried = RAISED[kind]
    assert type(raised) is expected
    assert raised._retryable is retried


def test_only_a_missing_entity_is_told_by_the_sentence_of_service_bus() -> None:
    address = "sb://host/orders"

    assert conditions.of(errors.EntityNotFound("no queue."), address).description == MISSING
    assert conditions.of(errors.EntityNotFound("no rule.")).description == "no rule."
    assert conditions.of(errors.MessageNotFound("no 7."), address).description == "no 7."


def test_an_error_of_a_room_is_told_as_its_base() -> None:
    class OfARoom(errors.QuotaExceeded):
        """Raised in this test."""

    assert conditions.of(OfARoom("full.")).condition == "amqp:resource-limit-exceeded"
    assert conditions.status_of(OfARoom("full.")) == 403


@pytest.mark.parametrize("kind", errors.all_errors())
def test_a_condition_can_be_written(kind: type[BusError]) -> None:
    told = conditions.of(made(kind), "orders")

    assert isinstance(told, performatives.Error)
    assert encoding.encode(told.to_described())
    assert 400 <= conditions.status_of(made(kind)) <= 503


@pytest.mark.requirement("R549")
@pytest.mark.parametrize("kind", [errors.PartitionUnavailable, errors.GenerationMismatch])
def test_what_is_over_soon_is_not_said_to_be_busy(kind: type[BusError]) -> None:
    """The SDK for .NET waits 10 s whenever it hears that."""
    found = conditions.of(kind("not now."))

    assert found.condition == "com.microsoft:timeout"
    assert conditions.status_of(kind("not now.")) == 408


def test_a_rule_that_is_missing_is_named_and_not_its_subscription() -> None:
    missing = errors.EntityNotFound("There is none.", metadata={"entity": "t", "rule": "large"})

    found = conditions.of(missing, "t/Subscriptions/s")

    assert found.description == (
        "The messaging entity 't/Subscriptions/s/Rules/large' could not be found."
    )
