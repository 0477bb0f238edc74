"""Circuit breakers of partitions."""

from bendybus.frontend.upstreams.breaker import Breaker


def test_one_miss_opens_a_breaker_and_only_a_probe_closes_it() -> None:
    breaker = Breaker()
    breaker.echoed(serving=True, conditions=())
    assert breaker.closed

    assert breaker.miss("late")
    assert not breaker.miss("late again")
    breaker.echoed(serving=False, conditions=("StoreFailed",))
    assert not breaker.closed
    breaker.echoed(serving=True, conditions=())

    assert breaker.closed
    assert breaker.opened == 1
