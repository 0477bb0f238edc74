"""Exceptions are those of azure-servicebus, in processes with and without azure-core."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from azure.core import exceptions as azure_exceptions
from azure.core.pipeline.transport import HttpResponse, HttpTransport
from azure.servicebus import exceptions as azure_bus
from azure.servicebus import management as azure_management

from bendybus.client import ServiceBusMessage, exceptions, management
from bendybus.client.exceptions import from_bus_error, from_management_error
from bendybus.domain import errors
from tests.client import surface_program
from tests.client.fake_front_end import FakeFrontEnd

PROGRAM = Path(surface_program.__file__)
# What the client has beyond azure-servicebus.
OWN_CLASSES = {"InvalidArgumentError", "InvalidRequestError"}
OWN_ATTRIBUTES = {"reason", "metadata", "failures", "error_code", "message"}


def with_path(path: Path) -> dict[str, str]:
    """Return the environment in which modules are looked for in `path` first."""
    return {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def outcomes(*arguments: str, path: Path | None = None) -> dict[str, Any]:
    """Return what the program prints."""
    environment = with_path(path) if path else None
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True, text=True, check=True, env=environment, timeout=30,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_same(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Compare classes in their order, and public attributes, but for our own."""
    for name in theirs.keys() & ours.keys():
        wanted, found = theirs[name], ours[name]
        assert found is not None, name
        caught_by = [each for each in found["classes"] if each not in OWN_CLASSES]
        assert caught_by == wanted["classes"], name
        assert set(found["attributes"]) - OWN_ATTRIBUTES == (
            set(wanted["attributes"]) - OWN_ATTRIBUTES
        ), name


class Refusing(HttpTransport):  # type: ignore[type-arg]
    """Answers each request of azure-servicebus's administration client with one status."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason

    def __enter__(self) -> "Refusing":
        return self

    def __exit__(self, *_: object) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def send(self, request: Any, **_: Any) -> Any:
        return Refusal(request, self.status, self.reason)


class Refusal(HttpResponse):
    """A response as the service writes it."""

    def __init__(self, request: Any, status: int, reason: str) -> None:
        super().__init__(request, None)
        self.status_code, self.reason = status, reason
        self.content_type = "application/xml"
        self.headers = {"content-type": self.content_type}

    def body(self) -> bytes:
        return self.text().encode()

    def text(self, encoding: str | None = None) -> str:
        return f"<Error><Code>{self.status_code}</Code><Detail>sentence</Detail></Error>"


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    """What azure-servicebus raises."""
    cases = surface_program.administration(
        azure_management, surface_program.NOWHERE, transport=Refusing(400, "Bad Request")
    )
    connected = surface_program.administration(azure_management, surface_program.NOWHERE)
    cases["no bus"] = connected["no bus"]
    found = {name: surface_program.outcome(call) for name, call in cases.items()}
    return outcomes("azure.servicebus") | found


@pytest.mark.requirement("R364")
@pytest.mark.parametrize("environment", [(), ("--without-azure",)], ids=["azure-core", "without"])
def test_bad_input_raises_what_azure_servicebus_raises(
    theirs: dict[str, Any], environment: tuple[str, ...]
) -> None:
    ours = outcomes("bendybus.client", *environment)

    assert theirs.keys() == ours.keys()
    # The service would refuse it; without a bus, the client cannot know.
    ours.pop("create: negative")
    assert_same(theirs, ours)


REJECTED = {
    errors.InvalidArgument: (400, "Bad Request"),
    errors.Unauthenticated: (401, "Unauthorized"),
    errors.Unauthorized: (401, "Unauthorized"),
    errors.QuotaExceeded: (403, "Forbidden"),
    errors.ManagedByManifest: (403, "Forbidden"),
    errors.EntityNotFound: (404, "Not Found"),
    errors.EntityAlreadyExists: (409, "Conflict"),
    errors.GenerationMismatch: (412, "Precondition Failed"),
    errors.BusError: (500, "Internal Server Error"),
    errors.ServerBusy: (503, "Service Unavailable"),
}


def of_the_bus(kind: type[errors.BusError]) -> errors.BusError:
    return errors.InvalidArgument("f", "x") if kind is errors.InvalidArgument else kind("sentence")


@pytest.mark.requirement("R364")
@pytest.mark.parametrize("kind", REJECTED)
def test_a_rejected_administration_call_has_the_attributes_of_azure_core(
    kind: type[errors.BusError],
) -> None:
    client = azure_management.ServiceBusAdministrationClient.from_connection_string(
        surface_program.NOWHERE, transport=Refusing(*REJECTED[kind]), retry_total=0
    )
    with pytest.raises(azure_exceptions.HttpResponseError) as raised:
        client.get_queue("q")
    theirs, ours = raised.value, from_management_error(of_the_bus(kind))

    assert_same(
        {"": surface_program.outcome(lambda: client.get_queue("q"))},
        {"": surface_program.outcome(lambda: throw(ours))},
    )
    assert isinstance(ours, azure_exceptions.HttpResponseError)
    assert (ours.status_code, ours.reason, ours.error) == (
        theirs.status_code, theirs.reason, theirs.error
    )  # fmt: skip
    assert (ours.model is None) == (theirs.model is None)
    response: Any = ours.response
    assert response.status_code == theirs.status_code
    assert "<Detail>" in response.text()
    assert not isinstance(ours, exceptions.ServiceBusError)
    assert str(ours) == ours.message == of_the_bus(kind).message


# What azure-servicebus makes of the service's conditions.
CONDITIONS: dict[type[errors.BusError], type[Exception]] = {
    errors.BusError: azure_bus.ServiceBusError,
    errors.InvalidArgument: azure_bus.ServiceBusError,
    errors.InvalidOperation: azure_bus.ServiceBusError,
    errors.RetryableError: azure_bus.ServiceBusConnectionError,
    errors.ServiceTimeout: azure_bus.OperationTimeoutError,
    errors.OutcomeUnknown: azure_bus.OperationTimeoutError,
    errors.EntityNotFound: azure_bus.MessagingEntityNotFoundError,
    errors.EntityAlreadyExists: azure_bus.MessagingEntityAlreadyExistsError,
    errors.EntityDisabled: azure_bus.MessagingEntityDisabledError,
    errors.MessageNotFound: azure_bus.MessageNotFoundError,
    errors.MessageLockLost: azure_bus.MessageLockLostError,
    errors.SessionLockLost: azure_bus.SessionLockLostError,
    errors.SessionCannotBeLocked: azure_bus.SessionCannotBeLockedError,
    errors.MessageSizeExceeded: azure_bus.MessageSizeExceededError,
    errors.QuotaExceeded: azure_bus.ServiceBusQuotaExceededError,
    errors.ServerBusy: azure_bus.ServiceBusServerBusyError,
    errors.PartitionUnavailable: azure_bus.ServiceBusCommunicationError,
    errors.Unauthenticated: azure_bus.ServiceBusAuthenticationError,
    errors.Unauthorized: azure_bus.ServiceBusAuthorizationError,
}
OWN_SUBCLASSES = {
    "InvalidRequestError", "InvalidOperationError", "OutcomeUnknownError",
    "PartitionUnavailableError",
}  # fmt: skip


@pytest.mark.requirement("R364")
@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_rejected_message_operation_is_caught_by_the_same_classes(
    kind: type[errors.BusError],
) -> None:
    ours = surface_program.outcome(lambda: throw(from_bus_error(of_the_bus(kind))))
    wanted = [each.__name__ for each in CONDITIONS[kind].__mro__]

    assert [each for each in ours["classes"] if each not in OWN_SUBCLASSES] == wanted


def throw(error: Exception) -> None:
    raise error


@pytest.mark.requirement("R364")
def test_every_error_of_the_bus_survives_pickle_and_is_an_azure_error() -> None:
    for kind in errors.all_errors():
        for translate in (from_bus_error, from_management_error):
            try:
                throw(of_the_bus(kind))
            except errors.BusError as error:
                made = translate(error)

            again = surface_program.copied(made)

            assert isinstance(made, azure_exceptions.AzureError)
            assert again.inner_exception is not None  # type: ignore[attr-defined]
            assert str(again.inner_exception) == str(of_the_bus(kind))  # type: ignore[attr-defined]
    failed = exceptions.ServiceBusError("x", failures=[(ServiceBusMessage("m"), made)])
    ((message, inner),) = pickle.loads(pickle.dumps(failed)).failures
    assert (str(message), type(inner)) == ("m", type(made))


def test_administration_errors_come_through_both_names(fake: FakeFrontEnd) -> None:
    with management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string
    ) as client:
        with pytest.raises(azure_exceptions.ResourceNotFoundError):
            client.get_queue("nowhere")
        with pytest.raises(exceptions.ResourceNotFoundError):
            client.get_queue("nowhere")


BROKEN = {
    "raises": "raise RuntimeError('broken')",
    "raises an import error": "import no_such_module",
    "is empty": "",
    "holds something else": "AzureError = HttpResponseError = ServiceRequestError = 5",
    "has other bases": "class AzureError: pass",
    "has another constructor": """
class AzureError(Exception): pass
class ServiceRequestError(AzureError): pass
class ServiceResponseError(AzureError): pass
class HttpResponseError(AzureError): pass
class ResourceExistsError(HttpResponseError): pass
class ResourceNotFoundError(HttpResponseError): pass
class ClientAuthenticationError(HttpResponseError): pass
""",
}
COUNTED = (
    "import sys, grpc, google.protobuf, lark; calls = 0\n"
    "def count(*_):\n"
    "    global calls; calls += 1\n"
    "sys.setprofile(count)\n"
    "import bendybus.client.exceptions\n"
    "sys.setprofile(None); print(calls)"
)


def calls_of_import(path: Path) -> int:
    """Return how many calls and returns the import of the exceptions takes."""
    counted = [sys.executable, "-c", COUNTED]
    environment = with_path(path)
    subprocess.run(counted, capture_output=True, check=True, env=environment, timeout=60)
    # The second time all modules are compiled.
    done = subprocess.run(
        counted, capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    return int(done.stdout)


@pytest.mark.requirement("R365")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_azure_core_changes_nothing(
    kind: str, tmp_path: Path, theirs: dict[str, Any]
) -> None:
    package = tmp_path / "azure" / "core"
    package.mkdir(parents=True)
    (tmp_path / "azure" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "exceptions.py").write_text(BROKEN[kind])

    ours = outcomes("bendybus.client", path=tmp_path)

    ours.pop("create: negative")
    assert_same(theirs, ours)


@pytest.mark.requirement("R365")
def test_a_broken_azure_core_costs_no_time(tmp_path: Path) -> None:
    for name, text in (("absent", "raise ImportError"), ("broken", BROKEN["raises"])):
        package = tmp_path / name / "azure" / "core"
        package.mkdir(parents=True)
        (tmp_path / name / "azure" / "__init__.py").write_text(text if name == "absent" else "")
        (package / "__init__.py").touch()
        (package / "exceptions.py").write_text(text)

    # A call takes about 1 us, so this is far below the 20 ms that are allowed; counted, since a
    # busy machine makes any import slower than that.
    assert calls_of_import(tmp_path / "broken") - calls_of_import(tmp_path / "absent") < 5_000
