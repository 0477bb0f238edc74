"""Messages over HTTP on a bus of real processes: sent, received and settled by hand."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from tests.integration.amqp import AmqpBus
from tests.integration.http_bus import LOCK, connected, running
from tests.integration.rest import Rest
from tests.integration.web import WebBus
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R652")]
_names = itertools.count(1)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    with running(tmp_path_factory.mktemp("bus")) as made:
        yield made


@pytest.fixture
def rest(bus: WebBus) -> Iterator[Rest]:
    with connected(bus) as made:
        yield made


@pytest.fixture
def queue(bus: WebBus) -> str:
    name = f"eu/queue-{next(_names)}"
    with bus.azure() as administration:
        administration.create_queue(name, enable_partitioning=True)
    return name


def test_a_message_is_sent_locked_renewed_unlocked_and_completed(rest: Rest, queue: str) -> None:
    sent = rest.send(queue, b"\x00\xff", {"MessageId": "one", "Label": "l"}, Color='"red"', N="5")
    locked = rest.lock(queue)
    renewed = rest.renew(locked)
    unlocked = rest.unlock(locked)
    again = rest.lock(queue)
    completed = rest.complete(again)
    late = rest.complete(again)

    assert (sent.status, locked.status, locked.body) == (201, 201, b"\x00\xff")
    assert (locked.headers["color"], locked.headers["n"]) == ('"red"', "5")
    assert (locked.broker["MessageId"], locked.broker["Label"]) == ("one", "l")
    assert (renewed.status, unlocked.status) == (200, 200)
    until = [parsedate_to_datetime(each.broker["LockedUntilUtc"]) for each in (locked, renewed)]
    assert until[0] <= until[1]
    assert [each.broker["DeliveryCount"] for each in (locked, again)] == [1, 2]
    assert locked.broker["LockToken"] != again.broker["LockToken"]
    assert (completed.status, late.status) == (200, 404)
    assert "lock" in late.sentence
    assert rest.take(queue, 0).status == 204


def test_a_message_is_received_and_deleted(rest: Rest, queue: str) -> None:
    assert rest.send_batch(queue, [{"Body": str(n)} for n in range(20)]).status == 201

    taken = [rest.take(queue) for _ in range(20)]

    assert {each.status for each in taken} == {200}
    assert sorted(int(each.body) for each in taken) == list(range(20))
    assert not any("location" in each.headers for each in taken)
    assert rest.take(queue, 0).status == 204


def test_locking_and_deleting_share_what_was_fetched(rest: Rest, queue: str) -> None:
    for number in range(6):
        assert rest.send(queue, str(number)).status == 201

    found = [(rest.take if number % 2 else rest.lock)(queue, 1) for number in range(6)]

    assert [each.status for each in found] == [201, 200] * 3
    assert {int(each.body) for each in found} == set(range(6))


def test_a_queue_that_was_made_again_is_received_from(bus: WebBus, rest: Rest) -> None:
    with bus.azure() as administration:
        for number in range(3):
            administration.create_queue("again")
            assert rest.send("again", str(number)).status == 201
            assert rest.lock("again").body == str(number).encode()
            administration.delete_queue("again")
            assert rest.lock("again", 0).status == 410


def test_the_end_of_another_queue_ends_no_request(bus: WebBus, rest: Rest, queue: str) -> None:
    with bus.azure() as administration, ThreadPoolExecutor(1) as pool:
        administration.create_queue("doomed")
        assert rest.lock("doomed", 0).status == 204
        waiting = pool.submit(rest.lock, queue, 3)
        time.sleep(0.5)
        administration.delete_queue("doomed")

        assert waiting.result().status == 204


@pytest.mark.parametrize("status", ["Disabled", "ReceiveDisabled", "SendDisabled"])
def test_what_is_disabled_is_forbidden(bus: WebBus, rest: Rest, queue: str, status: str) -> None:
    rest.send(queue, b"x")
    with bus.azure() as administration:
        properties = administration.get_queue(queue)
        properties.status = status
        administration.update_queue(properties)

    sent, locked = rest.send(queue), rest.lock(queue, 1)

    assert sent.status == (201 if status == "ReceiveDisabled" else 403)
    assert locked.status == (201 if status == "SendDisabled" else 403)


def test_requests_as_powershell_makes_them(bus: WebBus, rest: Rest, queue: str) -> None:
    headers = {
        "User-Agent": "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1",
        "Content-Type": "application/json; charset=utf-8",
        "Expect": "100-continue",
        "BrokerProperties": '{"Label":"l","TimeToLive":30}',
        "Priority": '"high"',
        "Connection": "Keep-Alive",
    }

    sent = rest.ask(
        "POST", f"/{queue}/messages?TimeOut=20&api-version=2017-04", b'{"a": 1}', headers
    )
    taken = rest.ask("DELETE", f"/{queue}/messages/head?TimeOut=1")

    assert (sent.status, taken.status, taken.body) == (201, 200, b'{"a": 1}')
    assert taken.headers["content-type"] == "application/json; charset=utf-8"
    assert (taken.headers["priority"], taken.broker["TimeToLive"]) == ('"high"', 30)


def test_an_empty_queue_answers_in_the_time_that_the_caller_gives(rest: Rest, queue: str) -> None:
    for timeout in (0, 1.5):
        began_s = time.monotonic()

        assert rest.lock(queue, timeout).status == 204

        assert timeout <= time.monotonic() - began_s < timeout + 3


def test_who_waits_gets_what_is_sent_meanwhile(bus: WebBus, queue: str) -> None:
    with ThreadPoolExecutor(8) as pool, connected(bus) as sender:
        rests = [connected(bus) for _ in range(8)]
        waiting = [pool.submit(each.lock, queue, None) for each in rests]
        for number in range(8):
            assert sender.send(queue, str(number)).status == 201

        found = [each.result() for each in waiting]

        assert sorted(int(each.body) for each in found) == list(range(8))
        assert {rests[0].complete(each).status for each in found} == {200}
        for each in rests:
            each.connection.close()


def test_location_has_the_host_that_the_caller_used(rest: Rest, queue: str) -> None:
    rest.send(queue)

    locked = rest.ask(
        "POST", f"/{queue.replace('/', '%2F')}/messages/head", headers={"Host": "bus.example:8443"}
    )

    path = f"/{queue.replace('/', '%2F')}/messages/{locked.broker['SequenceNumber']}"
    assert locked.headers["location"] == (
        f"https://bus.example:8443{path}/{locked.broker['LockToken']}"
    )
    assert rest.complete(locked).status == 200


def test_a_lock_is_named_by_the_number_or_the_id_of_its_message(rest: Rest, queue: str) -> None:
    for name in ("a/b é", "5"):
        rest.send(queue, broker={"MessageId": name})
        locked = rest.lock(queue)
        token = locked.broker["LockToken"]
        quoted = "a%2Fb%20%C3%A9" if name != "5" else name

        wrong = [
            rest.ask("DELETE", f"/{queue}/messages/{other}/{token}").status
            for other in ("other", str(locked.broker["SequenceNumber"] + 1), "0", "%20")
        ]

        assert wrong == [404] * 4
        assert rest.ask("DELETE", f"/{queue}/messages/{quoted}/{token}").status == 200


def test_a_lock_of_another_entity_or_sub_queue_is_none(rest: Rest, queue: str) -> None:
    rest.send("there", b"there")
    rest.send("here", b"here")
    rest.send(queue)
    with_lock = rest.lock("here")
    token, number = with_lock.broker["LockToken"], with_lock.broker["SequenceNumber"]
    paths = [
        f"/{entity}/messages/{number}/{token}"
        for entity in ("there", queue, "here/$DeadLetterQueue", "topic/subscriptions/all")
    ]

    found = {
        (method, path): rest.ask(method, path).status
        for method in ("PUT", "POST", "DELETE")
        for path in paths
    }

    assert set(found.values()) == {404}
    assert rest.renew(with_lock).status == 200
    assert rest.complete(with_lock).status == 200
    assert rest.take("there").body == b"there"


def test_dead_letters_and_subscriptions(rest: Rest) -> None:
    rest.send("topic", b"copy", {"Label": "x"}, Region='"eu"')
    path = "topic/Subscriptions/all"

    counts = []
    for _ in range(10):
        locked = rest.lock(path)
        counts.append(locked.broker["DeliveryCount"])
        assert rest.unlock(locked).status == 200
    dead = rest.lock(f"{path}/%24deadletterqueue")

    assert counts == list(range(1, 11))
    assert (dead.status, dead.body, dead.headers["region"]) == (201, b"copy", '"eu"')
    assert dead.headers["deadletterreason"] == '"MaxDeliveryCountExceeded"'
    assert rest.complete(dead).status == 200
    assert rest.lock(path, 0).status == 204


def test_every_status_has_a_sentence(rest: Rest, queue: str) -> None:
    large = b"x" * (256 * 1024 + 1)
    rest.send("topic")
    found = {
        "no entity": rest.send("nowhere"),
        "no entity to receive from": rest.lock("nowhere", 0),
        "no entity to settle in": rest.ask("DELETE", f"/nowhere/messages/1/{LOCK}"),
        "sessions": rest.lock("in-sessions", 0),
        "no session id": rest.send("in-sessions"),
        "a contradiction": rest.send("in-sessions", broker={"SessionId": "a", "PartitionKey": "b"}),
        "a topic": rest.lock("topic", 0),
        "a subscription": rest.send("topic/subscriptions/all"),
        "a sub-queue": rest.send("here/$DeadLetterQueue"),
        "no sub-queue": rest.lock("here/$Other", 0),
        "settling in a topic": rest.ask("DELETE", f"/topic/messages/1/{LOCK}"),
        "another method": rest.ask("POST", f"/{queue}"),
        "a time": rest.lock(queue, -1),
        "too large": rest.send(queue, large),
        "no JSON": rest.send(queue, b"", "nothing"),
        "no batch": rest.send_batch(queue, "{}"),
        "compressed": rest.send(queue, b"x", Content_Encoding="gzip"),
    }

    statuses = {name: answer.status for name, answer in found.items()}
    assert statuses == {
        "no entity": 410,
        "no entity to receive from": 410,
        "no entity to settle in": 410,
        "sessions": 400,
        "no session id": 400,
        "a contradiction": 400,
        "a topic": 400,
        "a subscription": 400,
        "a sub-queue": 400,
        "no sub-queue": 400,
        "settling in a topic": 400,
        "another method": 400,
        "a time": 400,
        "too large": 403,
        "no JSON": 400,
        "no batch": 400,
        "compressed": 400,
    }
    assert all(answer.sentence.startswith("SubCode=") for answer in found.values())
    assert rest.take(queue, 0).status == 204


def test_who_waits_to_be_asked_for_a_body_is_asked_if_it_is_wanted(bus: WebBus) -> None:
    host, _, port = bus.shared.rpartition(":")

    def first_line(token: str, path: str) -> bytes:
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
                "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            said = raw.recv(1024)
            if b"100 Continue" in said:
                raw.sendall(b"hello")
                said += raw.recv(1024)
            return said

    assert first_line(bus.token(), "/here/messages").startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert b"HTTP/1.1 201" in first_line(bus.token(), "/here/messages")
    assert first_line("none", "/here/messages").startswith(b"HTTP/1.1 401")
    assert first_line(bus.token(), "/nowhere/messages").startswith(b"HTTP/1.1 410")
    with connected(bus) as rest:
        assert [rest.take("here").body for _ in range(2)] == [b"hello"] * 2


def test_what_amqp_sends_is_received_over_http_and_the_reverse(tmp_path: Path) -> None:
    address = f"{HOST}:{free_port()}"
    bus = AmqpBus(tmp_path, partitions=2, front_end_options=(f"--http-listen={address}",))
    with bus.administration() as administration:
        administration.create_queue("both")
    with (
        bus.sdk() as client,
        client.get_queue_sender("both") as sender,
        client.get_queue_receiver("both") as receiver,
        Rest(address) as rest,
    ):
        sender.send_messages(
            ServiceBusMessage(
                b"amqp",
                message_id="m",
                subject="s",
                content_type="text/plain",
                application_properties={"text": "ü", "number": 5, "odd name": True},
            )
        )
        over_http = rest.lock("both", 10)
        rest.complete(over_http)
        rest.send("both", b"http", {"MessageId": "h", "Label": "s"}, Text='"\\u00fc"', Number="5")
        [over_amqp] = receiver.receive_messages(1, 10)
        token, number = over_amqp.lock_token, over_amqp.sequence_number

        # The lock has one name over both.
        settled = rest.ask("DELETE", f"/both/messages/{number}/{token}")

    bus.end()
    assert (over_http.body, over_http.headers["content-type"]) == (b"amqp", "text/plain")
    assert json.loads(over_http.headers["text"]) == "ü"
    assert over_http.headers["number"] == "5"
    assert over_http.broker["UserProperties"] == {"odd name": True}
    assert b"".join(over_amqp.body) == b"http"
    assert (over_amqp.message_id, over_amqp.subject) == ("h", "s")
    assert over_amqp.application_properties == {b"Text": "ü".encode(), b"Number": 5}
    assert settled.status == 200


def test_a_lock_may_be_settled_through_another_connection(bus: WebBus, queue: str) -> None:
    with connected(bus) as first, connected(bus) as second:
        first.send(queue)
        locked = first.lock(queue)
        first.connection.close()

        assert second.complete(locked).status == 200
