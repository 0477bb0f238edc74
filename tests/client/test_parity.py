"""Every public name of azure-servicebus 7.15 exists here, with the same signature."""

import enum
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = {
    "azure.servicebus": "bendybus.client",
    "azure.servicebus.aio": "bendybus.client.aio",
    "azure.servicebus.management": "bendybus.client.management",
    "azure.servicebus.aio.management": "bendybus.client.aio.management",
    "azure.servicebus.exceptions": "bendybus.client.exceptions",
    "azure.servicebus.amqp": "bendybus.client.amqp",
}
SURFACES = ("", "aio.")

# Every difference there is, with its reason.
_MODEL = "belongs to the original's XML serialiser, which does not exist here"
MISSING = {
    **{
        f"management.MessageCountDetails.{name}": _MODEL
        for name in (
            "as_dict",
            "deserialize",
            "enable_additional_properties_sending",
            "from_dict",
            "is_xml_model",
            "serialize",
        )
    },
}
_OPTION = "an extra keyword, for what the protocol has and the original lacks"
_EXTRA = "an extra of Bendybus"
SIGNATURES = {
    f"{surface}ServiceBusReceiver.{name}": _OPTION
    for surface in SURFACES
    for name in (
        "abandon_message",
        "complete_message",
        "defer_message",
        "dead_letter_message",
        "renew_message_lock",
    )
} | {f"{surface}ServiceBusSender.send_messages": _OPTION for surface in SURFACES}
ADDED = {
    **{
        f"{surface}ServiceBusReceiver.{name}": _EXTRA
        for surface in SURFACES
        for name in ("complete_messages", "delete_messages", "purge_messages", "release_messages")
    },
    **{
        f"{surface}ServiceBusReceiver.{name}": _EXTRA
        for surface in SURFACES
        for name in ("flush", "settle_in_background")
    },
    **{
        f"{surface}ServiceBusClient.{name}": _EXTRA
        for surface in SURFACES
        for name in ("transaction", "get_partition_browser", "get_partition_sender")
    },
    **{
        f"{surface}management.ServiceBusAdministrationClient.{name}": _EXTRA
        for surface in SURFACES
        for name in (
            "list_queue_sessions_runtime_properties",
            "list_subscription_sessions_runtime_properties",
        )
    },
    "management.SessionRuntimeProperties": _EXTRA,
    "ServiceBusTransaction": _EXTRA,
    "aio.ServiceBusTransaction": _EXTRA,
    "ServiceBusReceivedMessage.partition": _EXTRA,
    "ServiceBusReceivedMessage.auto_renew_error": "a slot; the original sets it in instances",
    "ServiceBusReceivedMessage.decoded_properties": "received text as str, timestamps as datetime",
    "management.QueueRuntimeProperties.availability_status": _EXTRA,
    "management.QueueRuntimeProperties.deferred_message_count": _EXTRA,
    "management.QueueRuntimeProperties.locked_message_count": _EXTRA,
    "management.QueueRuntimeProperties.partitions": _EXTRA,
    "ServiceBusSender.possible_duplicates": _EXTRA,
    "aio.ServiceBusSender.possible_duplicates": _EXTRA,
    "exceptions.OutcomeUnknownError": _EXTRA,
    "exceptions.PartitionUnavailableError": _EXTRA,
    "exceptions.InvalidArgumentError": _EXTRA,
    "exceptions.InvalidRequestError": _EXTRA,
    "exceptions.ClientAuthenticationError": "the class of azure-core, or stands for it",
    "exceptions.ServiceRequestError": "the class of azure-core, or stands for it",
    "exceptions.ServiceResponseError": "the class of azure-core, or stands for it",
    "exceptions.ServiceResponseTimeoutError": "the class of azure-core, or stands for it",
    "exceptions.InvalidOperationError": _EXTRA,
    "exceptions.NotSupportedError": "what comes later refuses with it",
    "exceptions.HttpResponseError": "stands for the class of azure-core",
    "exceptions.ResourceNotFoundError": "stands for the class of azure-core",
    "exceptions.ResourceExistsError": "stands for the class of azure-core",
}
MISSING_EVERYWHERE = {"raise_with_traceback": "a method of azure-core for Python 2"}


def public_names(module: Any) -> list[str]:
    """Return what a module offers."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and not name.startswith("_") and issubclass(value, Exception)
    ]


def members(kind: type) -> dict[str, Any]:
    """Return the public attributes of a class and the special methods that are its own."""
    special = (
        "__iter__",
        "__next__",
        "__aiter__",
        "__anext__",
        "__enter__",
        "__aenter__",
        "__exit__",
        "__aexit__",
        "__len__",
        "__getitem__",
        "__contains__",
    )
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") or name in special
    }


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """Return a signature without annotations; enum members by name and value."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        if isinstance(default, enum.Enum):
            default = (default.name, default.value)
        elif default is not inspect.Parameter.empty and hasattr(default, "__dict__"):
            default = (type(default).__name__, vars(default))
        found.append((parameter.name, parameter.kind, default))
    return found


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield each public name with the original and ours; None where there is none."""
    for original_name, our_name in MODULES.items():
        original = importlib.import_module(original_name)
        ours = importlib.import_module(our_name)
        prefix = our_name.removeprefix("bendybus.client").removeprefix(".")
        for name in public_names(original):
            key = f"{prefix}.{name}" if prefix else name
            yield key, getattr(original, name), getattr(ours, name, None)


PAIRS = list(pairs())
CLASSES = [pair for pair in PAIRS if inspect.isclass(pair[1]) and pair[2] is not None]


@pytest.mark.parametrize(("key", "original", "ours"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_every_public_name_exists(key: str, original: Any, ours: Any) -> None:
    assert (ours is not None) != (key in MISSING)


@pytest.mark.parametrize(("key", "original", "ours"), CLASSES, ids=[pair[0] for pair in CLASSES])
def test_every_class_has_the_same_members(key: str, original: Any, ours: Any) -> None:
    theirs, mine = members(original), members(ours)

    missing = {
        f"{key}.{name}" for name in theirs.keys() - mine.keys() - MISSING_EVERYWHERE.keys()
    } - MISSING.keys()
    base = set(members(Exception)) if issubclass(ours, Exception) else set()
    added = {
        f"{key}.{name}"
        for name in mine
        if name not in theirs and not name.startswith("__") and name not in base
    } - ADDED.keys()

    assert not missing
    if not issubclass(original, Exception):
        assert not added
    for name, value in theirs.items():
        if isinstance(value, property):
            own = mine[name]
            assert isinstance(own, property)
            assert (own.fset is None) == (value.fset is None), name


@pytest.mark.requirement("R48")
def test_partitions_are_seen_only_through_extras_that_say_so() -> None:
    shown = {
        f"{key}.{name}": value
        for key, original, ours in CLASSES
        for name, value in members(ours).items()
        if name.startswith("partition") and name not in members(original)
    }

    assert shown.keys() == {
        "ServiceBusReceivedMessage.partition",
        "management.QueueRuntimeProperties.partitions",
    }
    assert all("extra of Bendybus" in " ".join(value.__doc__.split()) for value in shown.values())


@pytest.mark.parametrize(("key", "original", "ours"), CLASSES, ids=[pair[0] for pair in CLASSES])
def test_every_method_has_the_same_signature(key: str, original: Any, ours: Any) -> None:
    if issubclass(original, enum.Enum):
        assert [(one.name, one.value) for one in original] == [
            (one.name, one.value) for one in ours
        ]
        return
    assert shape(original) == shape(ours)
    for name, value in members(original).items():
        if f"{key}.{name}" in MISSING or name in MISSING_EVERYWHERE or isinstance(value, property):
            continue
        theirs, mine = getattr(original, name), getattr(ours, name)
        if not callable(theirs) or issubclass(original, Exception):
            continue
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(mine), name
        if name.startswith("__"):
            continue
        wanted, found = shape(theirs), shape(mine)
        if f"{key}.{name}" in SIGNATURES:
            known = {each for each, _, _ in wanted}
            added = [each for each in found if each[0] not in known]
            assert [each for each in found if each not in added] == wanted, name
            assert all(kind is inspect.Parameter.KEYWORD_ONLY for _, kind, _ in added)
        else:
            assert found == wanted, name


def test_functions_have_the_same_signature() -> None:
    functions = [pair for pair in PAIRS if inspect.isfunction(pair[1])]

    assert functions
    for _, original, ours in functions:
        assert shape(original) == shape(ours)


def test_exceptions_are_caught_by_the_same_names() -> None:
    for key, original, ours in CLASSES:
        if issubclass(original, Exception):
            theirs = {base.__name__ for base in original.__mro__}
            assert theirs <= {base.__name__ for base in ours.__mro__}, key


def test_every_allowed_difference_still_exists() -> None:
    known = {key for key, _, _ in PAIRS}
    for key in {*MISSING, *SIGNATURES}:
        head = key if key in known else key.rsplit(".", 1)[0]
        assert head in known, key
    for key in ADDED:
        module, _, name = key.rpartition(".")
        ours = importlib.import_module("bendybus.client")
        for part in f"{module}.{name}".strip(".").split("."):
            ours = getattr(ours, part, None) or importlib.import_module(f"{ours.__name__}.{part}")
        assert ours is not None


def test_modules_of_names_are_there_after_importing_the_package() -> None:
    # `azure.servicebus.amqp.AmqpMessageHeader` works after `import azure.servicebus`.
    code = (
        "import bendybus.client as bus;"
        "print(bus.amqp.AmqpMessageHeader.__name__, bus.exceptions.ServiceBusError.__name__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == ["AmqpMessageHeader", "ServiceBusError"]


def test_the_library_imports_only_the_exceptions_of_azure() -> None:
    code = (
        "import sys;"
        "import bendybus.client.aio.management, bendybus.client.amqp;"
        "print([name for name in sys.modules if name.startswith('azure.servicebus')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
