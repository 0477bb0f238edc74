"""A front end that stops hands its AMQP connections over: nothing is lost, nothing comes twice."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage

from bendybus.amqp import sections
from bendybus.amqp.performatives import (
    Accepted,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Symbol
from bendybus.frontend.listeners.amqp.hand_over import KEEPS_CREDIT, TOLD
from bendybus.frontend.listeners.amqp.receive_calls import CONNECTS_S, RECEIVES_BY_CALL, USUAL_S
from tests.amqp.peers import message
from tests.integration.amqp import AmqpBus, take
from tests.integration.balancer import Balancer
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, ended

# azure-servicebus leaves sockets of links that were refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def amqp_bus(tmp_path: Path) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path, partitions=2)
    with made.administration() as administration:
        administration.create_queue("orders")
        administration.create_queue("sessions", requires_session=True)
    yield made
    made.end()


@pytest.fixture
def brief_bus(tmp_path: Path) -> Iterator[AmqpBus]:
    """A bus whose front ends drain for two seconds."""
    made = AmqpBus(tmp_path, partitions=1, front_end_options=("--drain-s=2",))
    with made.administration() as administration:
        administration.create_queue("orders")
    yield made
    made.end()


@pytest.mark.requirement("R491")
def test_what_is_held_is_completed_after_the_front_end_was_replaced(amqp_bus: AmqpBus) -> None:
    with (
        amqp_bus.sdk(retry_total=20, retry_backoff_factor=0.2) as sdk,
        sdk.get_queue_sender("orders") as sender,
        sdk.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
        held = take(receiver, 3)

        took_s = amqp_bus.front_end.terminate()
        amqp_bus.start_front_end()
        for each in held:
            receiver.complete_message(each)
        rest = take(receiver, 17)
        for each in rest:
            receiver.complete_message(each)
        late = receiver.receive_messages(5, max_wait_time=2)

    assert took_s < 4.0
    assert sorted(int(str(each)) for each in (*held, *rest)) == list(range(20))
    assert late == []
    assert {each.delivery_count for each in rest} == {0}


@pytest.mark.requirement("R490")
def test_a_session_is_free_at_once_when_its_front_end_stops(amqp_bus: AmqpBus) -> None:
    with amqp_bus.sdk(retry_total=20, retry_backoff_factor=0.2) as sdk:
        with sdk.get_queue_sender("sessions") as sender:
            sender.send_messages(ServiceBusMessage("one", session_id="a"))
        receiver = sdk.get_queue_receiver("sessions", session_id="a")
        with receiver:
            take(receiver, 1)
            amqp_bus.front_end.terminate()
            amqp_bus.start_front_end()

            with sdk.get_queue_receiver("sessions", session_id="a") as again:
                [found] = take(again, 1)
                again.complete_message(found)

    assert found.delivery_count == 0


@pytest.mark.requirement("R518")
def test_a_connection_ends_without_a_word_after_what_was_under_way(amqp_bus: AmqpBus) -> None:
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        assert peer.attach("orders", SENDER) is None
        assert peer.attach("orders", RECEIVER) is None
        assert isinstance(peer.transfer("orders", message(b"one")), Accepted)
        peer.flow("orders", 1)
        peer.wait(Transfer)
        amqp_bus.front_end.signal(signal.SIGTERM)
        peer.wait(Flow, lambda each: each.link_credit == 0)

        peer.send(Disposition(True, 0, 0, False, Accepted()))

        assert peer.wait(Disposition).state == Accepted()
        peer.wait_for_end()
        assert [*peer.said(Detach), *peer.said(End), *peer.said(Close)] == []


@pytest.mark.requirement("R518")
def test_a_program_that_settles_one_after_another_settles_all_that_it_has(
    amqp_bus: AmqpBus,
) -> None:
    count, pause_s = 15, 0.1
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        assert peer.attach("orders", SENDER) is None
        assert peer.attach("orders", RECEIVER) is None
        for _ in range(count):
            assert isinstance(peer.transfer("orders", message(b"one")), Accepted)
        peer.flow("orders", count)
        for _ in range(count):
            peer.wait(Transfer)
        amqp_bus.front_end.signal(signal.SIGTERM)

        for number in range(count):
            # The program works for a while on each: it is the length of all that matters.
            time.sleep(pause_s)
            peer.send(Disposition(True, number, number, False, Accepted()))
            assert peer.wait(Disposition).state == Accepted()

        assert peer.wait_for_end() < 1


@pytest.mark.requirement("R518")
def test_a_program_may_think_for_a_second_and_sends_go_on_meanwhile(amqp_bus: AmqpBus) -> None:
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        assert peer.attach("orders", SENDER) is None
        assert peer.attach("orders", RECEIVER) is None
        assert isinstance(peer.transfer("orders", message(b"one")), Accepted)
        peer.flow("orders", 10)
        peer.wait(Transfer)
        amqp_bus.front_end.signal(signal.SIGTERM)

        # A receive of the SDK for Java waits for so long for the second message.
        time.sleep(1.2)
        sent = peer.transfer("orders", message(b"two"))
        peer.send(Disposition(True, 0, 0, False, Accepted()))

        assert isinstance(sent, Accepted)
        assert peer.wait(Disposition).state == Accepted()
        assert peer.wait_for_end() < 1
        assert peer.said(Transfer) == []


@pytest.mark.requirement("R518")
@pytest.mark.parametrize("product", sorted(TOLD))
def test_the_sdks_for_javascript_and_go_are_told_why_and_may_end_their_sessions_first(
    amqp_bus: AmqpBus, product: str
) -> None:
    peer = RawAmqp(amqp_bus.amqp_address)
    with peer.open(properties={Symbol("product"): product}):
        assert peer.attach("orders", SENDER) is None
        amqp_bus.front_end.signal(signal.SIGTERM)
        detach = peer.wait(Detach)

        peer.send(attach_of("orders", SENDER, 7))
        peer.send(End())
        refused = peer.wait(Detach)
        peer.wait(End)

        # The answer came first: it would wait a minute for it.
        assert ended(detach) == ended(refused) == "amqp:link:detach-forced"
        assert ended(peer.wait(Close)) == "amqp:connection:forced"


@pytest.mark.requirement("R581")
@pytest.mark.parametrize("comes", [False, True], ids=["nothing comes", "a message comes"])
def test_a_connection_of_the_sdk_for_python_ends_when_its_next_receive_begins(
    amqp_bus: AmqpBus, comes: bool
) -> None:
    peer = RawAmqp(amqp_bus.amqp_address)
    with peer.open(properties={Symbol("product"): RECEIVES_BY_CALL}):
        assert peer.attach("orders", RECEIVER) is None
        peer.flow("orders", 1)
        old = amqp_bus.front_end
        amqp_bus.start_another_front_end()
        # It has no time left to connect again, if it takes as long as most.
        time.sleep(USUAL_S[0] - CONNECTS_S)
        old.signal(signal.SIGTERM)
        time.sleep(0.5)
        with amqp_bus.sdk() as sdk, sdk.get_queue_sender("orders") as sender:
            if comes:
                sender.send_messages(ServiceBusMessage("one"))
                peer.wait(Transfer)
                peer.send(Disposition(True, 0, 0, False, Accepted()))
                assert peer.wait(Disposition).state == Accepted()

            peer.flow("orders", 1)

            # Its drain would last for four seconds more.
            assert peer.wait_for_end() < 2


@pytest.mark.requirement("R581")
def test_a_connection_of_the_sdk_for_python_ends_at_once_if_its_receive_has_just_begun(
    amqp_bus: AmqpBus,
) -> None:
    peer = RawAmqp(amqp_bus.amqp_address)
    with peer.open(properties={Symbol("product"): RECEIVES_BY_CALL}):
        assert peer.attach("orders", RECEIVER) is None
        peer.flow("orders", 1)
        amqp_bus.front_end.signal(signal.SIGTERM)

        # Its drain would last for five seconds.
        assert peer.wait_for_end() < 2


@pytest.mark.requirement("R518")
def test_vertx_keeps_its_credit(amqp_bus: AmqpBus) -> None:
    peer = RawAmqp(amqp_bus.amqp_address)
    with peer.open(properties={Symbol("product"): KEEPS_CREDIT}):
        assert peer.attach("orders", SENDER) is None
        granted = peer.wait(Flow, lambda each: each.handle is not None)
        amqp_bus.front_end.signal(signal.SIGTERM)

        peer.wait_for_end()

        assert granted.link_credit
        assert all(each.link_credit != 0 for each in peer.said(Flow))


@pytest.mark.requirement("R581")
def test_a_receive_that_waits_for_longer_does_not_hold_up_the_front_end(brief_bus: AmqpBus) -> None:
    peer = RawAmqp(brief_bus.amqp_address)
    with peer.open(properties={Symbol("product"): RECEIVES_BY_CALL}):
        assert peer.attach("orders", RECEIVER) is None
        peer.flow("orders", 1)
        time.sleep(USUAL_S[0] - CONNECTS_S)
        brief_bus.front_end.signal(signal.SIGTERM)

        assert 1 < peer.wait_for_end() < 5


@pytest.mark.requirement("R581")
def test_a_message_that_comes_at_the_end_of_that_time_is_read_before_the_connection_ends(
    brief_bus: AmqpBus,
) -> None:
    peer = RawAmqp(brief_bus.amqp_address)
    with peer.open(properties={Symbol("product"): RECEIVES_BY_CALL}):
        assert peer.attach("orders", RECEIVER) is None
        old = brief_bus.front_end
        brief_bus.start_another_front_end()
        with brief_bus.sdk() as sdk, sdk.get_queue_sender("orders") as sender:
            peer.flow("orders", 1)
            time.sleep(USUAL_S[0] - CONNECTS_S)
            began_s, came_s = time.monotonic(), 0.0
            old.signal(signal.SIGTERM)
            # Not later: on a busy machine it would come when the time is over.
            time.sleep(1.8)
            sender.send_messages(ServiceBusMessage("one"))
            while not peer.ended:
                peer.read(0.01)
                if not came_s and peer.said(Transfer):
                    came_s = time.monotonic()
            ended_s = time.monotonic()

    assert ended_s - began_s < 4
    assert came_s, "the message did not come"
    assert ended_s - came_s > 0.25


@pytest.mark.requirement("R518")
def test_programs_see_no_error_while_front_ends_are_replaced(amqp_bus: AmqpBus) -> None:
    stop = threading.Event()
    done: Counter[str] = Counter()
    failures: list[str] = []

    def load(name: str, work: Callable[[], object]) -> None:
        while not stop.is_set():
            try:
                work()
                done[name] += 1
            except Exception as error:
                failures.append(f"{name}: {error!r}")

    with Balancer(amqp_bus.amqp_address) as balancer, ExitStack() as stack:
        text = amqp_bus.connection_string.replace(amqp_bus.front_end_address, balancer.address)
        sdk = stack.enter_context(SdkClient.from_connection_string(text))
        sender = stack.enter_context(sdk.get_queue_sender("orders"))
        planner = stack.enter_context(sdk.get_queue_sender("orders"))
        receiver = stack.enter_context(sdk.get_queue_receiver("orders"))
        peeker = stack.enter_context(sdk.get_queue_receiver("orders"))
        due = datetime.now(UTC) + timedelta(hours=1)

        def receive() -> None:
            for each in receiver.receive_messages(10, max_wait_time=10):
                receiver.complete_message(each)

        works: dict[str, Callable[[], object]] = {
            "send": lambda: sender.send_messages(ServiceBusMessage("x")),
            "receive": receive,
            "schedule": lambda: planner.schedule_messages(ServiceBusMessage("x"), due),
            "peek": lambda: peeker.peek_messages(3),
        }
        threads = [threading.Thread(target=load, args=each) for each in works.items()]
        for thread in threads:
            thread.start()
        for _ in range(3):
            eventually(lambda: len(done) == len(works))
            done.clear()
            old = amqp_bus.front_end
            balancer.target = amqp_bus.start_another_front_end()
            old.terminate()
        eventually(lambda: len(done) == len(works))
        stop.set()
        for thread in threads:
            thread.join(60)

    assert failures == []


@pytest.mark.requirement("R491")
def test_a_request_under_way_is_answered_before_the_hand_over(amqp_bus: AmqpBus) -> None:
    stop = threading.Timer(0.5, amqp_bus.front_end.signal, (signal.SIGTERM,))
    partitions = amqp_bus.partitions.values()
    resume = [threading.Timer(1.5, each.signal, (signal.SIGCONT,)) for each in partitions]
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        nothing = {"from-sequence-number": 1, "message-count": 1}
        assert peer.manage("orders", "peek-message", nothing)[0] == 204
        for partition in partitions:
            partition.signal(signal.SIGSTOP)
        for timer in (stop, *resume):
            timer.start()

        asked = {"message-id": "a", "message": sections.encode(Message(data=[b"a"]))}
        status, _, _ = peer.manage("orders", "schedule-message", {"messages": [asked]})

    assert status == 200


def test_senders_go_on_while_front_ends_are_replaced(amqp_bus: AmqpBus) -> None:
    stop = threading.Event()
    sent: list[str] = []
    failures: list[Exception] = []

    def load() -> None:
        with (
            amqp_bus.sdk(retry_total=50, retry_backoff_factor=0.1, retry_backoff_max=0.5) as sdk,
            sdk.get_queue_sender("orders") as sender,
        ):
            while not stop.is_set():
                body = str(len(sent))
                try:
                    sender.send_messages(ServiceBusMessage(body, message_id=body))
                except Exception as error:
                    failures.append(error)
                    return
                sent.append(body)

    thread = threading.Thread(target=load)
    thread.start()
    for _ in range(2):
        before, deadline = len(sent), time.monotonic() + 30
        while len(sent) < before + 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        amqp_bus.front_end.terminate()
        amqp_bus.start_front_end()
    before, deadline = len(sent), time.monotonic() + 30
    while len(sent) < before + 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    thread.join(60)

    assert failures == []
    with amqp_bus.sdk() as sdk, sdk.get_queue_receiver("orders") as receiver:
        received = [str(each) for each in take(receiver, 2 * len(sent), wait_s=5)]
    # A send whose answer was lost with its front end may have been repeated by the SDK.
    assert set(received) >= set(sent)
