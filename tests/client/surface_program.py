"""What raises which exception: calls with bad input, by this client or by azure-servicebus.

Run by `test_exception_surface`, in processes with and without azure-core:
`python surface_program.py {azure.servicebus|bendybus.client} [--without-azure] [CONNECTION]`.
Prints JSON: the name of each case, and the names of the classes that catch what was raised.
"""

import importlib
import json
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

NOWHERE = (
    "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
)


def main(arguments: list[str]) -> None:
    """Make the calls and print what they raised."""
    if "--without-azure" in arguments:
        # An entry of None makes `import` fail, as if the package were not installed.
        sys.modules["azure"] = None  # type: ignore[assignment]
    bus = importlib.import_module(arguments[0])
    client = bus.ServiceBusClient.from_connection_string(NOWHERE, retry_total=0)
    cases = messaging(bus, client)
    if not arguments[0].startswith("azure"):
        cases.update(administration(importlib.import_module("bendybus.client.management"), NOWHERE))
    print(json.dumps({name: outcome(call) for name, call in cases.items()}))


def outcome(call: Callable[[], Any]) -> Any:
    """Return the classes that catch what the call raises, and its public attributes."""
    try:
        call()
    except Exception as error:
        again = error if type(error).__module__.startswith("azure") else copied(error)
        names = [kind.__name__ for kind in type(again).__mro__]
        return {
            "classes": list(dict.fromkeys(each for each in names if not each.startswith("_"))),
            "attributes": sorted(each for each in vars(again) if not each.startswith("_")),
        }
    return None


def copied(error: Exception) -> Exception:
    """Return the error after a way through pickle, which keeps all but its traceback."""
    made: Exception = pickle.loads(pickle.dumps(error))
    assert type(made) is type(error)
    assert (str(made), made.args) == (str(error), error.args)
    assert vars(made).keys() == vars(error).keys()
    return made


def messaging(bus: Any, client: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls of senders and receivers."""
    sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
    closed, closed_receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
    closed.close()
    closed_receiver.close()
    message, now = bus.ServiceBusMessage, datetime.now(UTC)
    connect = bus.ServiceBusClient.from_connection_string
    return {
        "connection string: malformed": lambda: connect("nonsense"),
        "connection string: no key": lambda: connect("Endpoint=sb://h/"),
        "sender: no name": lambda: client.get_queue_sender(None),
        "sender: other entity": lambda: connect(NOWHERE + ";EntityPath=o").get_queue_sender("q"),
        "receiver: mode": lambda: client.get_queue_receiver("q", receive_mode="odd"),
        "receiver: sub-queue": lambda: client.get_queue_receiver("q", sub_queue="odd"),
        "receiver: wait": lambda: client.get_queue_receiver("q", max_wait_time=0),
        "receiver: prefetch": lambda: client.get_queue_receiver("q", prefetch_count=-1),
        "receiver: no subscription": lambda: client.get_subscription_receiver("t", None),
        "send: None": lambda: sender.send_messages(None),
        "send: str": lambda: sender.send_messages("x"),
        "send: list of int": lambda: sender.send_messages([5]),
        "send: timeout": lambda: sender.send_messages(message("x"), timeout=0),
        "send: no bus": lambda: sender.send_messages(message("x"), timeout=1),
        "send: closed": lambda: closed.send_messages(message("x")),
        "schedule: timeout": lambda: sender.schedule_messages(message("x"), now, timeout=0),
        "cancel: timeout": lambda: sender.cancel_scheduled_messages([1], timeout=0),
        "receive: none": lambda: receiver.receive_messages(0),
        "receive: wait": lambda: receiver.receive_messages(1, max_wait_time=-1),
        "receive: no bus": lambda: receiver.receive_messages(1, max_wait_time=1),
        "receive: closed": lambda: closed_receiver.receive_messages(),
        "iterate: closed": lambda: next(closed_receiver),
        "peek: count": lambda: receiver.peek_messages(-1),
        "peek: timeout": lambda: receiver.peek_messages(1, timeout=0),
        "peek: closed": lambda: closed_receiver.peek_messages(),
        "deferred: timeout": lambda: receiver.receive_deferred_messages(1, timeout=0),
        "complete: None": lambda: receiver.complete_message(None),
        "complete: not received": lambda: receiver.complete_message(message("x")),
        "message: body": lambda: message(5),
        "message: long id": lambda: message("x", message_id="x" * 200),
        "message: long session": lambda: message("x", session_id="x" * 200),
        "message: two keys": lambda: message("x", session_id="a", partition_key="b"),
    }


def administration(module: Any, connection: str, **options: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls of an administration client."""
    connect = module.ServiceBusAdministrationClient.from_connection_string
    client = connect(connection, retry_total=0, **options)
    return {
        "administration: malformed": lambda: connect("nonsense"),
        "administration: no key": lambda: connect("Endpoint=sb://h/"),
        "get: None": lambda: client.get_queue(None),
        "get: int": lambda: client.get_queue(5),
        "delete: None": lambda: client.delete_queue(None),
        "update: None": lambda: client.update_queue(None),
        "update: str": lambda: client.update_queue("q"),
        "update: empty": lambda: client.update_queue({}),
        "create: no topic": lambda: client.create_subscription(None, "s"),
        "create: not supported": lambda: client.create_queue("q", status="Odd"),
        "create: number": lambda: client.create_queue("q", lock_duration=5),
        "create: negative": lambda: client.create_queue("q", lock_duration=timedelta(days=-1)),
        "create: bool": lambda: client.create_queue("q", max_delivery_count=1.5),
        "no bus": lambda: client.get_queue("q"),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
