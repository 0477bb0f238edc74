"""Connections of HTTP that keep messages: what they wait for, hold, and leave behind."""

import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain.limits import MB
from tests.integration.processes import Bus, Process, eventually
from tests.integration.rest import Answer, Rest
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R653")]
LARGE = 3 * MB
_names = itertools.count(1)


class HttpBus(Bus):
    """A bus without keys that listens for HTTP."""

    def __init__(self, folder: os.PathLike[str], **options: object) -> None:
        self.http = f"{HOST}:{free_port()}"
        options["front_end_options"] = (f"--http-listen={self.http}",)
        super().__init__(folder, **options)  # type: ignore[arg-type]

    def rest(self) -> Rest:
        """Return a connection."""
        return Rest(self.http)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBus]:
    made = HttpBus(tmp_path_factory.mktemp("bus"), partitions=4)
    yield made
    made.end()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBus]:
    """A bus of one partition, whose messages may be large."""
    made = HttpBus(tmp_path_factory.mktemp("plain"), partitions=1)
    yield made
    made.end()


def new_queue(bus: Bus, **options: Any) -> str:
    """Create a queue; return its name."""
    name = f"queue-{next(_names)}"
    with bus.administration() as administration:
        administration.create_queue(name, **options)
    return name


@contextmanager
def suspended(process: Process) -> Iterator[None]:
    """Suspend a process."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def waits(bus: HttpBus, queue: str, *, seconds: int = 60) -> socket.socket:
    """Return a connection whose request waits for a message."""
    host, _, port = bus.http.rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    made.sendall(
        f"POST /{queue}/messages/head?timeout={seconds} HTTP/1.1\r\nHost: {bus.http}\r\n"
        "Content-Length: 0\r\n\r\n".encode()
    )
    return made


def test_what_was_fetched_for_a_connection_is_there_for_its_next_request(bus: HttpBus) -> None:
    queue = new_queue(bus)
    with bus.rest() as first, bus.rest() as second:
        for number in range(8):
            assert first.send(queue, str(number)).status == 201

        found = [first.lock(queue).body for _ in range(8)]

        assert sorted(found) == [str(number).encode() for number in range(8)]
        assert second.lock(queue, 0).status == 204


def test_what_was_fetched_for_a_connection_goes_back_uncounted_when_it_ends(bus: HttpBus) -> None:
    queue = new_queue(bus, lock_duration=timedelta(minutes=5))
    with bus.rest() as sender, bus.rest() as other:
        for number in range(8):
            assert sender.send(queue, str(number)).status == 201
        with bus.rest() as first:
            assert first.lock(queue).status == 201

        began_s = time.monotonic()
        found = [other.lock(queue, 5) for _ in range(7)]

        assert time.monotonic() - began_s < 4
        assert {(each.status, each.broker["DeliveryCount"]) for each in found} == {(201, 1)}


def test_another_front_end_has_nothing_while_this_one_holds_what_is_left(tmp_path: Path) -> None:
    bus = HttpBus(tmp_path, partitions=4)
    before, here = bus.front_end, bus.http
    queue = new_queue(bus, enable_partitioning=True)
    [there] = bus.start_front_end_elsewhere([bus.http])
    with Rest(here) as keeps, Rest(there) as other:
        for number in range(4):
            assert keeps.send(queue, str(number)).status == 201

        first = keeps.take(queue)
        elsewhere = other.take(queue, 0)
        began_s = time.monotonic()
        second = keeps.take(queue)
        lasted_s = time.monotonic() - began_s
        keeps.connection.close()
        # It is back at once, and repeating gets all.
        rest = [other.take(queue, 5) for _ in range(2)]

    bus.end()
    before.end()
    assert (first.status, elsewhere.status, second.status) == (200, 204, 200)
    assert lasted_s < 0.5
    found = sorted(each.body for each in (first, second, *rest))
    assert found == [b"0", b"1", b"2", b"3"]


def test_a_client_that_has_gone_while_it_waited_gets_nothing(bus: HttpBus) -> None:
    queue = new_queue(bus, lock_duration=timedelta(minutes=5))
    with bus.rest() as rest:
        gone = [waits(bus, queue) for _ in range(20)]
        time.sleep(0.2)
        for each in gone:
            each.close()
        for number in range(20):
            assert rest.send(queue, str(number)).status == 201

        found = [rest.lock(queue, 5) for _ in range(20)]

        assert {(each.status, each.broker["DeliveryCount"]) for each in found} == {(201, 1)}


def test_a_thousand_requests_wait_and_others_do_not_notice(bus: HttpBus) -> None:
    queue, other = new_queue(bus), new_queue(bus)
    with ExitStack() as stack, bus.rest() as rest:
        waiting = [stack.enter_context(waits(bus, queue)) for _ in range(1_000)]
        began_s = time.monotonic()
        for _ in range(20):
            assert rest.send(other, b"x").status == 201
            assert rest.take(other).status == 200
        lasted_s = time.monotonic() - began_s
        with ThreadPoolExecutor(4) as pool, ExitStack() as senders:
            rests = [senders.enter_context(bus.rest()) for _ in range(4)]
            sent = [
                *pool.map(lambda each: [each.send(queue, b"y").status for _ in range(250)], rests)
            ]

        answers = [each.recv(4096) for each in waiting]

        assert lasted_s < 10
        assert sent == [[201] * 250] * 4
        assert all(each.startswith(b"HTTP/1.1 201") and each.endswith(b"y") for each in answers)


def test_who_waits_is_told_when_the_front_end_stops(bus: HttpBus) -> None:
    queue = new_queue(bus)
    with waits(bus, queue) as waiting:
        time.sleep(0.2)
        began_s = time.monotonic()
        bus.front_end.terminate()

        answer = waiting.recv(4096)

        assert answer.startswith(b"HTTP/1.1 503")
        assert b"stopping" in answer
        assert time.monotonic() - began_s < 30
    bus.start_front_end()
    with bus.rest() as rest:
        assert rest.lock(queue, 0).status == 204


def test_a_large_message_comes_and_goes(plain: HttpBus) -> None:
    queue = new_queue(plain, max_message_size_in_kilobytes=10 * 1024)
    body = os.urandom(LARGE)
    with plain.rest() as rest:
        assert rest.send(queue, body).status == 201

        locked = rest.lock(queue)

        assert (locked.status, locked.body == body) == (201, True)
        assert rest.complete(locked).status == 200


def test_a_message_larger_than_the_share_of_a_connection_is_sent(plain: HttpBus) -> None:
    queue = new_queue(plain, max_message_size_in_kilobytes=100 * 1024)
    body = os.urandom(20 * MB)
    with plain.rest() as rest:
        assert rest.send(queue, body).status == 201

        taken = rest.take(queue, 20)

        assert (taken.status, taken.body == body) == (200, True)


def raw(bus: HttpBus, method: str, path: str, *, times: int = 1) -> socket.socket:
    """Return a connection with requests without a body, one behind the other."""
    host, _, port = bus.http.rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    request = f"{method} {path} HTTP/1.1\r\nHost: {bus.http}\r\nContent-Length: 0\r\n\r\n"
    made.sendall(request.encode() * times)
    return made


def test_a_client_that_sends_nothing_more_is_answered(plain: HttpBus) -> None:
    queue = new_queue(plain)
    with plain.rest() as rest:
        for _ in range(20):
            with raw(plain, "POST", f"/{queue}/messages") as half:
                half.shutdown(socket.SHUT_WR)
                assert half.recv(4096).startswith(b"HTTP/1.1 201")
                assert half.recv(4096) == b""

        for _ in range(10):
            # It has gone, as far as anyone can tell; a message is not lost with it.
            with raw(plain, "DELETE", f"/{queue}/messages/head?timeout=5") as half:
                half.shutdown(socket.SHUT_WR)
                half.recv(4096)

        left = 0
        while rest.take(queue, 1).status == 200:
            left += 1
    assert left >= 10


def test_a_client_that_has_gone_behind_many_requests_gets_nothing(plain: HttpBus) -> None:
    queue = new_queue(plain, lock_duration=timedelta(minutes=5))
    with plain.rest() as rest:
        with raw(plain, "DELETE", f"/{queue}/messages/head?timeout=50", times=500):
            time.sleep(0.3)
        rest.send(queue, b"x")

        assert rest.take(queue, 5).body == b"x"


def test_a_message_with_many_properties_can_be_read_by_every_client(plain: HttpBus) -> None:
    queue = new_queue(plain)
    properties = {f"p{number}": str(number) for number in range(120)}
    with plain.rest() as rest:
        assert rest.send_batch(queue, [{"Body": "x", "UserProperties": properties}]).status == 201

        taken = rest.take(queue)

        assert taken.status == 200
        aside = taken.broker["UserProperties"]
        in_headers = {name for name in properties if name in taken.headers}
        assert set(properties) == in_headers | set(aside)
        assert len(taken.headers) < 80


def test_what_is_too_large_is_refused_before_it_comes(plain: HttpBus) -> None:
    queue = new_queue(plain)
    host, _, port = plain.http.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"POST /{queue}/messages HTTP/1.1\r\nHost: {plain.http}\r\n"
            f"Content-Length: {2**40}\r\n\r\n".encode()
        )

        assert raw.recv(4096).startswith(b"HTTP/1.1 403")


def test_a_body_without_end_and_a_slow_one_end(plain: HttpBus) -> None:
    queue = new_queue(plain)
    host, _, port = plain.http.rpartition(":")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = (
        f"POST /{queue}/messages HTTP/1.1\r\nHost: {plain.http}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()

    def endless() -> bytes:
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(head)
            for _ in range(200):
                try:
                    raw.sendall(chunk)
                except ConnectionError:
                    break
            try:
                return raw.recv(4096)
            except ConnectionError:
                return b""

    def slow() -> tuple[bytes, float]:
        began_s = time.monotonic()
        with socket.create_connection((host, int(port)), timeout=40) as raw:
            raw.sendall(head + b"1\r\nx\r\n")
            return raw.recv(4096), time.monotonic() - began_s

    with ThreadPoolExecutor(2) as pool, plain.rest() as rest:
        both = pool.submit(endless), pool.submit(slow)
        said, (late, lasted_s) = both[0].result(), both[1].result()

        assert said == b"" or said.startswith(b"HTTP/1.1 403")
        assert late.startswith(b"HTTP/1.1 408")
        assert 10 < lasted_s < 25
        assert rest.take(queue, 0).status == 204


def test_a_message_whose_partition_does_not_answer_is_unknown_and_stored_once(
    plain: HttpBus,
) -> None:
    queue = new_queue(plain, requires_duplicate_detection=True)
    broker = {"MessageId": "one"}
    with plain.rest() as rest:

        def send() -> Answer:
            return rest.ask(
                "POST",
                f"/{queue}/messages?timeout=2",
                b"x",
                {"BrokerProperties": '{"MessageId": "one"}'},
            )

        with suspended(plain.partitions[0]):
            unknown = send()

        eventually(lambda: send().status == 201)
        found = [rest.take(queue, 2), rest.take(queue, 0)]

    assert unknown.status in (503, 504), unknown
    assert unknown.sentence
    assert [each.status for each in found] == [200, 204]
    assert found[0].broker["MessageId"] == broker["MessageId"]


def test_a_settlement_whose_partition_is_killed_is_done_or_says_that_it_is_not(
    plain: HttpBus,
) -> None:
    queue = new_queue(plain)
    with plain.rest() as rest, plain.rest() as other:
        rest.send(queue)
        locked = rest.lock(queue)
        with ThreadPoolExecutor(1) as pool:
            os.kill(plain.partitions[0].pid, signal.SIGSTOP)
            settling = pool.submit(rest.complete, locked)
            time.sleep(0.5)
            plain.partitions[0].kill()
            plain.start_partition(0)
            answer = settling.result()

        # The locks of a partition end with its process.
        left = eventually(lambda: other.take(queue, 1), what="an answer")

    assert (answer.status, left.status) in ((404, 200), (503, 200), (504, 200), (504, 204)), answer
