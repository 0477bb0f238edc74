"""Options: what is read of them, and the sentence for each that is wrong."""

from datetime import UTC, datetime

import pytest

from bendybus.spark import columns, options
from bendybus.spark.errors import OptionError
from bendybus.spark.option_table import Position, Use

pytestmark = pytest.mark.requirement("R291")


def read(**given: str) -> options.ReadOptions:
    return options.of_read({"queue": "orders", **given}, Use.BATCH_READ)


def stream(**given: str) -> options.ReadOptions:
    return options.of_read({"queue": "orders", **given}, Use.STREAM_READ)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"startingoffset": "latest"},
            r"option startingoffset: is unknown; did you mean startingOffsets.*\? Known options",
        ),
        ({"zzz": "1"}, "option zzz: is unknown; Known options are connectionStringFile, "),
        ({"path": "orders"}, "option path: is unknown; name the entity with the option queue"),
        ({"fetchSize": "many"}, "option fetchSize: must be a whole number from 1 to 5000"),
        ({"fetchSize": "5001"}, r"option fetchSize: must be .* \(got '5001'\)"),
        ({"fetchBytes": "2g"}, "option fetchBytes: must be 1 to 1048576 bytes"),
        ({"timeout": "soon"}, "option timeout: must be a duration from 1 s to 3600 s"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss: must be true or false"),
        ({"startingOffsets": "newest"}, "option startingOffsets: must be earliest, latest, or"),
        ({"startingOffsets": '{"0": "x"}'}, "option startingOffsets: must be earliest"),
        (
            {"startingOffsets": '{"1": 562949953421317}'},
            "562949953421317 is not a sequence number of partition 1",
        ),
        ({"startingOffsets": '{"0": -3}'}, "-3 is not a sequence number of partition 0"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: must be latest, or"),
        ({"startingTime": "yesterday"}, "option startingTime: must be ISO 8601"),
        ({"columns": "body,text"}, "option columns: text is unknown; columns are partition, "),
        ({"columns": "body,body"}, "option columns: body is given twice"),
        ({"columns": "body", "body": "none"}, "option body: none contradicts columns"),
        ({"states": "gone"}, "option states: must be active, deferred or scheduled"),
        ({"subQueue": "dead"}, "option subQueue: must be deadletter or transferdeadletter"),
        ({"queue": " "}, "option queue: must not be empty"),
        ({"topic": "t"}, "option topic: contradicts queue; set one of them"),
        ({"subscription": "s"}, "option subscription: has no effect without topic"),
        ({"endpoint": "sb://a:1"}, "option tokenFile: is required; endpoint and tokenFile"),
        ({"connectionString": "a", "connectionStringFile": "b"}, "option connectionString: contra"),
        ({"startingOffsets": "latest", "startingTime": "5"}, "option startingTime: contradicts"),
        ({"endingTime": "5", "subQueue": "deadletter"}, "option endingTime: is not of a sub-queue"),
        ({"settle": "trailing"}, "option settle: trailing is of streaming reads; use readStream"),
        (
            {"maxMessagesPerTrigger": "5"},
            "option maxMessagesPerTrigger: is not an option of a batch read, but of a streaming "
            "read; allowed are connectionStringFile, ",
        ),
        ({"idempotencyKey": "k"}, "is not an option of a batch read, but of a batch write"),
    ],
)
def test_a_wrong_option_of_a_batch_read_is_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read(**given)


@pytest.mark.requirement("R362")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"idempotencyKey": "k"}, "option tasks: is required with idempotencyKey"),
        ({"tasks": "3"}, "option tasks: has no effect without idempotencyKey"),
        ({"idempotencyKey": "k", "tasks": "-1"}, "option tasks: "),
    ],
)
def test_a_key_needs_the_number_of_tasks(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        options.of_write({"connectionString": "c", "queue": "q", **given}, Use.BATCH_WRITE)


@pytest.mark.requirement("R593")
def test_a_frame_without_partitions_is_written_in_one_task() -> None:
    given = {"connectionString": "c", "queue": "q", "idempotencyKey": "k", "tasks": "0"}

    assert options.of_write(given, Use.BATCH_WRITE).tasks == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"settle": "trailing", "startingOffsets": "latest"}, "it starts at the beginning"),
        ({"settle": "trailing", "sessionId": "s"}, "also those that sessionId leaves out"),
        ({"settle": "trailing", "states": "deferred"}, "also those that states leaves out"),
        ({"owner": "me"}, "option owner: is of settle=trailing only"),
        ({"leaseDuration": "60s"}, "option leaseDuration: is of settle=trailing only"),
        ({"maxTriggerDelay": "1m"}, "option maxTriggerDelay: has no effect without minMessages"),
        (
            {"minMessagesPerTrigger": "9", "maxMessagesPerTrigger": "5"},
            "option minMessagesPerTrigger: must not be above maxMessagesPerTrigger",
        ),
        ({"pushFilters": "true"}, "is not an option of a streaming read, but of a batch read"),
    ],
)
def test_a_wrong_option_of_a_streaming_read_is_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        stream(**given)


@pytest.mark.requirement("R403")
def test_the_limit_of_a_batch_has_the_name_that_kafkas_source_gives_it_too() -> None:
    assert stream(maxOffsetsPerTrigger="70").max_messages == 70
    assert stream(MAXOFFSETSPERTRIGGER="70").max_messages == 70
    with pytest.raises(OptionError, match="option maxOffsetsPerTrigger: is another name of max"):
        stream(maxOffsetsPerTrigger="70", maxMessagesPerTrigger="80")
    with pytest.raises(OptionError, match="option maxMessagesPerTrigger: is not an option of a b"):
        read(maxOffsetsPerTrigger="70")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "option queue: is required; or topic and subscription, or entity"),
        ({"topic": "t"}, "option subscription: is required; messages of a topic wait there"),
        (
            {"entity": "orders/$DeadLetterQueue", "subQueue": "deadletter"},
            "option subQueue: contradicts entity",
        ),
    ],
)
def test_a_read_needs_one_entity(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        options.of_read(given, Use.BATCH_READ)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"entity": "t/Subscriptions/s"}, "cannot be written to; name a queue or a topic"),
        ({"queue": "q", "startingOffsets": "latest"}, "is not an option of a batch write"),
        ({"queue": "q", "topic": "t"}, "option topic: contradicts queue"),
    ],
)
def test_a_wrong_option_of_a_write_is_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        options.of_write(given, Use.BATCH_WRITE)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"queue": "orders"}, "orders"),
        ({"queue": "orders", "subQueue": "deadletter"}, "orders/$DeadLetterQueue"),
        ({"topic": "t", "subscription": "s"}, "t/Subscriptions/s"),
        ({"entity": "t/subscriptions/s"}, "t/Subscriptions/s"),
        ({"entity": "orders/$deadletterqueue"}, "orders/$DeadLetterQueue"),
        ({"entity": "t/Subscriptions/s/$DeadLetterQueue"}, "t/Subscriptions/s/$DeadLetterQueue"),
        ({"entity": "q/$Transfer/$DeadLetterQueue"}, "q/$Transfer/$DeadLetterQueue"),
    ],
)
def test_an_entity_is_named_by_its_parts_or_by_its_path(given: dict[str, str], path: str) -> None:
    assert options.of_read(given, Use.BATCH_READ).entity.path == path


def test_names_are_read_without_regard_to_case_as_spark_hands_them_over() -> None:
    found = stream(maxmessagespertrigger="7", checkpointlocation="x", FAILONDATALOSS="False")

    assert found.max_messages == 7
    assert not found.fail_on_data_loss


def test_durations_sizes_and_times_are_read_in_their_usual_forms() -> None:
    found = read(timeout="2m", fetchBytes="512k", startingTime="2026-01-31T18:00:00Z")

    assert (found.timeout_s, found.fetch_bytes) == (120, 512 * 1024)
    assert found.starting == Position(time=datetime(2026, 1, 31, 18, tzinfo=UTC))
    assert read(startingTime="1000").starting.time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.requirement("R596")
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2026-01-31T18:00:00", "add Z for UTC, or an offset"),
        ("2026-01-31 18:00", "add Z for UTC, or an offset"),
        ("2026-01-31", "add Z for UTC, or an offset"),
        ("20260131", "and not a date or seconds"),
        ("1769882400", "and not a date or seconds"),
        ("202601311800", "and not a date or seconds"),
        ("20260131180000", "and not a date or seconds"),
        ("31.01.2026", "ISO 8601 with a zone, such as"),
        ("yesterday", "ISO 8601 with a zone, such as"),
    ],
)
def test_a_time_without_a_zone_or_in_another_form_is_refused(value: str, says: str) -> None:
    with pytest.raises(OptionError, match=f"option startingTime: must be .*{says}.*{value}"):
        read(startingTime=value)


@pytest.mark.requirement("R596")
def test_a_time_has_any_zone() -> None:
    assert read(startingTime="2026-01-31T19:00+01:00") == read(startingTime="1769882400000")


def test_the_offset_of_a_progress_is_a_start() -> None:
    seq = {"0": 41, "1": (1 << 48) + 7, "2": -1, "3": 0}
    given = '{"v": 1, "seq": ' + str(seq).replace("'", '"') + ', "inc": {}}'

    found = read(startingOffsets=given).starting

    assert found.numbers == {0: 41, 1: (1 << 48) + 7, 2: "latest", 3: 0}


def test_a_tap_starts_with_latest_and_what_ends_with_earliest() -> None:
    assert stream().starting == Position("latest")
    assert stream(settle="trailing").starting == Position("earliest")
    assert read().starting == Position("earliest")


def test_a_connection_never_shows_its_string() -> None:
    found = read(connectionString="Endpoint=sb://h;SharedAccessKey=secret")

    assert "secret" not in repr(found)


@pytest.mark.requirement("R290")
def test_columns_choose_the_schema_and_whether_bodies_are_read() -> None:
    names, body = options.columns_of({"columns": "Body, sequence_number", "body": "string"})

    assert columns.ddl(names, body) == "`body` string, `sequence_number` bigint NOT NULL"
    assert columns.BODY not in options.columns_of({"body": "none"})[0]
    every = options.columns_of({"columns": "ALL"})[0]
    assert {columns.HEAD, columns.RANGE, columns.BODY} < {*every}
    assert columns.BODY not in options.columns_of({"columns": "all", "body": "none"})[0]
