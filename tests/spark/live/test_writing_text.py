"""Text that is not UTF-8, as Spark reads it of files."""

from collections.abc import Callable

import pytest

from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R591")
NewQueue = Callable[..., Queue]


def test_a_body_of_text_is_sent_as_the_bytes_that_it_has(new_queue: NewQueue) -> None:
    queue = new_queue()
    given = queue.spark.sql("select cast(X'636166e9' as string) body union all select 'plain'")

    queue.write(given)

    assert sorted(bytes(row.body) for row in queue.read().collect()) == [b"caf\xe9", b"plain"]


@pytest.mark.parametrize(
    ("column", "value"), [("subject", "{}"), ("properties", "map('price', {})")]
)
def test_other_text_that_is_not_utf_8_is_named_by_row_and_column(
    new_queue: NewQueue, column: str, value: str
) -> None:
    queue = new_queue()
    text = "if(id = 6, cast(X'636166e9' as string), 'plain')"
    given = queue.spark.range(0, 10, 1, 1).selectExpr("'b' body", f"{value.format(text)} {column}")

    with pytest.raises(Exception, match=f"row 7 of task 0: column {column}: must be UTF-8 text"):
        queue.write(given)

    assert queue.read().count() == 0
