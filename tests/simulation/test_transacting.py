"""Seeded runs of a bus whose clients answer requests in transactions, with crashes of every kind.

What must hold in every run: a request is gone if, and only if, its answer was sent; both exactly
once; what a partition refused is not done, whatever comes late.
"""

from collections import Counter

import pytest

from tests.simulation.test_simulation import break_something, calm, wrong_figures
from tests.simulation.transacting import TransactingBus

SEEDS = range(30)


def storm(bus: TransactingBus, steps: int = 250) -> None:
    """Send, receive, answer and break things for a while."""
    receivers = [bus.add_receiver() for _ in range(2)]
    for n in range(steps):
        bus.run_until(bus.now + bus.random.randint(1, 60))
        match bus.random.randrange(12):
            case 0 | 1:
                bus.send([f"keyless-{n}"])
            case 2 | 3:
                bus.send([f"request-{n}"], f"key{bus.random.randrange(6)}")
            case 4 | 5 | 6:
                bus.receive(bus.random.choice(receivers), bus.random.choice([1, 3, 20]))
            case 7 | 8 | 9:
                bus.answer_some(bus.random.randint(1, 4))
            case 10:
                break_something(bus)
            case _:
                bus.tick()
    calm(bus)


@pytest.mark.requirement("R91")
@pytest.mark.requirement("R93")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_transaction_is_done_whole_and_once_or_not_at_all(seed: int) -> None:
    bus = TransactingBus(seed)

    storm(bus)

    held = bus.stored()
    bodies = Counter(held.values())
    assert any(each.committed for each in bus.transactions)
    for each in bus.transactions:
        # Answers are keyed: each has one number for ever, whatever was repeated.
        numbers = bus.numbers.get(each.payload, set()) | {
            number for number, body in held.items() if body == each.payload
        }
        assert each.committed is not None
        assert len(numbers) == each.committed
        assert bodies[each.payload] <= 1
        if each.committed:
            assert each.lease.number not in held
    assert not bus.returned_after_complete
    assert not wrong_figures(bus)
