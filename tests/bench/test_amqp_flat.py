"""How a long run of AMQP clients is cut into quarters."""

import pytest

from bench.amqp import flat
from bench.amqp.exchange import Server
from bench.amqp.flat import Quarter, Sample
from bench.amqp.orders import Place, Role

PLACE = Place("127.0.0.1:1", "bench", durable=False, echoes=True)


def test_each_quarter_has_its_own_rate_and_cost() -> None:
    # 10 messages a second for 20 µs each, then 5 a second for 40.
    samples = [Sample(s, 10 * s, 0.000_2 * s) for s in range(5)]
    samples += [Sample(4 + s, 40 + 5 * s, 0.000_8 + 0.000_2 * s) for s in range(1, 5)]

    found = flat.quarters(samples)

    assert [each.rate for each in found] == [10, 10, 5, 5]
    assert [each.cpu_us for each in found] == pytest.approx([20, 20, 40, 40])


def test_a_quarter_ends_at_the_sample_that_is_nearest() -> None:
    samples = [Sample(at_s, int(100 * at_s), 0.0) for at_s in (0, 1.1, 1.9, 3.1, 4)]

    assert [each.rate for each in flat.quarters(samples)] == pytest.approx([100] * 4)


def test_a_run_that_came_to_a_halt_is_not_taken_for_a_slow_one() -> None:
    samples = [Sample(s, min(s, 4), 0.0) for s in range(9)]

    with pytest.raises(RuntimeError, match=r"nothing was done in a quarter of 8\.0 s"):
        flat.quarters(samples)


def test_the_rows_say_how_the_last_quarter_compares_with_the_first() -> None:
    server = Server("Bendybus, AMQP", PLACE, {"front end": [[1]]}, "front end")

    rows = flat.flat_rows(server, Role.SEND, 120, [Quarter(100, 20), *[Quarter(95, 22)] * 3])

    assert {row.what: row.median for row in rows} == {
        "amqp_in_flat": 95,
        "amqp_in_flat_cpu": 22,
        "amqp_in_flat_rate_drift": 95,
        "amqp_in_flat_cpu_drift": pytest.approx(110),
    }
