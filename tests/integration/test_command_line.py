"""Commands that move messages, as processes, against a bus of processes."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bendybus.client import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from bendybus.client.amqp import AmqpAnnotatedMessage
from tests.integration import forked
from tests.integration.command_lines import command
from tests.integration.processes import Bus, eventually


def run(bus: Bus, *arguments: str, said: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    where = ("--connection-string", bus.connection_string)
    return forked.run("bendybus.cli", *where, *arguments, said=said)


def rows(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    """Return the objects that a command printed."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def send(client: ServiceBusClient, queue: str, *messages: Any) -> None:
    with client.get_queue_sender(queue) as sender:
        for message in messages:
            sender.send_messages(message)


def test_a_dead_letter_of_a_queue_that_detects_duplicates_comes_back(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(requires_duplicate_detection=True)
    send(client, queue, ServiceBusMessage("precious", message_id="m"))
    with client.get_queue_receiver(queue, max_wait_time=10) as receiver:
        [message] = receiver.receive_messages()
        receiver.dead_letter_message(message, reason="test")

    [answer] = rows(run(bus, "deadletter", "resubmit", queue, "--json"))

    assert answer["resubmitted"] == 1
    [found] = rows(run(bus, "receive", queue, "--json"))
    assert found["body"] == "precious"
    assert found["application_properties"]["ResubmittedMessageId"] == "m"
    assert rows(run(bus, "deadletter", "list", queue, "--json")) == []


def test_dead_letters_are_sent_to_another_queue_that_is_named(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue, other = new_queue(), new_queue()
    send(client, queue, ServiceBusMessage("misdirected"))
    with client.get_queue_receiver(queue, max_wait_time=10) as receiver:
        receiver.dead_letter_message(receiver.receive_messages()[0])

    refused = run(bus, "deadletter", "resubmit", queue, "--transfer-dead-letters")
    [answer] = rows(run(bus, "deadletter", "resubmit", queue, "--to", other, "--json"))

    told = " ".join(refused.stderr.split())
    assert f"needs --to: the queue or topic that their descriptions name, or '{queue}'" in told
    assert answer["resubmitted"] == 1
    assert [each["body"] for each in rows(run(bus, "receive", other, "--json"))] == ["misdirected"]
    assert rows(run(bus, "receive", queue, "--wait", "0.5", "--json")) == []


def test_what_is_looked_at_is_not_counted_to_death(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(max_delivery_count=1)
    send(client, queue, ServiceBusMessage("b"))

    looks = [rows(run(bus, "receive", queue, "--no-complete", "--json")) for _ in range(3)]

    assert [[each["delivery_count"] for each in look] for look in looks] == [[0], [0], [0]]


def test_every_kind_of_body_is_shown_and_no_escape_code_reaches_the_terminal(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue()
    send(
        client,
        queue,
        AmqpAnnotatedMessage(value_body={"a": 1}),
        AmqpAnnotatedMessage(sequence_body=[[1, "x"]]),
        ServiceBusMessage(None),
        ServiceBusMessage("\x1b]0;title\x07 \x9b31m red \u202e", subject="\x1b[2J"),
    )

    table = run(bus, "peek", queue, "-o", "wide")
    shown = rows(run(bus, "receive", queue, "--max", "4", "--json"))

    assert table.returncode == 0, table.stderr
    text = table.stdout + json.dumps(shown, ensure_ascii=True)
    assert not any(character in text for character in "\x1b\x07\x9b\u202e")
    assert r"\x1b[2J" in table.stdout
    assert sorted(each.get("body_type", "data") for each in shown) == [
        "data", "sequence", "value", "value",
    ]  # fmt: skip


def test_an_interrupted_receive_loses_nothing(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue()
    send(client, queue, [ServiceBusMessage(f"{n:06}" * 20) for n in range(400)])
    receiving = subprocess.Popen(
        command(bus, "receive", queue, "--max", "1000", "--wait", "30", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert receiving.stdout is not None

    # The pipe is full now and then; what the reader has not taken is not settled.
    lines = [receiving.stdout.readline() for _ in range(150)]
    receiving.send_signal(signal.SIGINT)
    # Not `communicate`: it reads past what readline has buffered.
    with receiving.stdout:
        lines += receiving.stdout.readlines()
    receiving.wait(120)
    printed = {json.loads(line)["body"] for line in lines if line.strip()}
    left = {each["body"] for each in rows(run(bus, "peek", queue, "--max", "1000", "--json"))}

    assert receiving.returncode == 130
    assert len(printed | left) == 400


def test_a_pipe_without_a_reader_loses_nothing(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue()
    send(client, queue, [ServiceBusMessage("x" * 500) for _ in range(300)])
    receiving = subprocess.Popen(
        command(bus, "receive", queue, "--max", "1000", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert receiving.stdout is not None

    seen = [receiving.stdout.readline() for _ in range(3)]
    receiving.stdout.close()
    receiving.wait(120)
    left = rows(run(bus, "peek", queue, "--max", "1000", "--json"))

    # Batches that were written to the pipe are done; the one that was not is back.
    assert len(seen) == 3
    assert len(left) >= 100
    assert all(each["delivery_count"] == 0 for each in left)


def test_an_import_goes_on_where_it_stopped(
    bus: Bus, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue()
    file = tmp_path / "x.jsonl"
    # The last line is too large for a message.
    lines = [json.dumps({"body": f"{n}", "partition_key": str(n % 3)}) for n in range(1_200)]
    file.write_text("\n".join([*lines, "x" * 2_000_000]))

    stopped = run(bus, "send", queue, "--from-file", str(file))
    file.write_text("\n".join([*lines, "small"]))
    resumed = run(bus, "send", queue, "--from-file", str(file), "--resume")

    assert stopped.returncode == 1
    assert "1200 messages are stored" in stopped.stderr
    assert resumed.stdout == f"1 sent to '{queue}'\n"
    assert not file.with_name("x.jsonl.sent").exists()
    bodies = [each["body"] for each in rows(run(bus, "peek", queue, "--max", "2000", "--json"))]
    assert sorted(bodies) == sorted([*(str(n) for n in range(1_200)), "small"])


def test_a_message_from_the_command_line_has_what_its_options_say(
    bus: Bus, new_queue: Callable[..., str]
) -> None:
    queue = new_queue()
    at = "2099-01-01T00:00:00Z"

    sent = run(bus, "send", queue, "b", "-p", "subject=s", "-p", "n=1", "--ttl", "PT1H", "--at", at)
    run(bus, "send", queue, "-", "--raw", "--count", "2", said="two\nlines")

    assert sent.returncode == 0, sent.stderr
    shown = rows(run(bus, "peek", queue, "--json"))
    [scheduled] = [each for each in shown if each.get("state") == "scheduled"]
    assert (scheduled["subject"], scheduled["time_to_live"]) == ("s", "PT1H")
    assert scheduled["application_properties"] == {"n": "1"}
    assert scheduled["scheduled_enqueue_time_utc"] == "2099-01-01T00:00:00+00:00"
    assert [each["body"] for each in shown if each is not scheduled] == ["two\nlines"] * 2


def test_follow_waits_for_what_comes(
    bus: Bus, client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue()
    following = subprocess.Popen(
        command(bus, "receive", queue, "--follow", "--wait", "0.2", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert following.stdout is not None
    for body in ("a", "b"):
        send(client, queue, ServiceBusMessage(body))
        assert json.loads(following.stdout.readline())["body"] == body

    following.send_signal(signal.SIGINT)
    following.communicate(timeout=120)

    assert following.returncode == 130
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        assert eventually(lambda: not dead.peek_messages())
