"""Transactions that a partition is asked for while its rules have bugs; see `guard_scenarios`."""

from typing import Final

from bendybus.domain.disposition import Disposition as D
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelPart,
    ReserveNumbers,
    Settle,
    Transact,
    TransactAlone,
    Transfer,
)
from tests.partition_server.driver import Driver
from tests.partition_server.guard_scenarios import Plan, Scenario, _around, make_queues


def transaction(driver: Driver) -> Plan:
    make_queues(driver, requires_duplicate_detection=True, max_delivery_count=1)
    keys = ["k"] * 5
    driver.send(*[b"old"] * 5, partition_keys=keys)
    tokens = [token for _, token in driver.receive(5)]
    uid = driver.ref().uid
    parts: list[Append | Settle | Transfer] = [
        Append(
            None,
            driver.ref(),
            Batch([b"a", b"b"], partition_keys=["k"] * 2, message_ids=["a", "b"]),
        ),
        Settle(None, 0, D.COMPLETE, tokens[0], entity_uid=uid),
        Settle(None, 0, D.DEFER, tokens[1], entity_uid=uid),
        Settle(None, 0, D.DEAD_LETTER, tokens[2], entity_uid=uid, dead_letter_reason="r"),
        Settle(None, 0, D.RENEW_LOCK, tokens[4], entity_uid=uid),
        Settle(None, 0, D.ABANDON, tokens[3], entity_uid=uid),
    ]
    return _around(driver, Transact("t", driver.ref(), b"transaction-0001", parts))


def transaction_refused(driver: Driver) -> Plan:
    plan = transaction(driver)
    lost = Settle(None, 0, D.COMPLETE, b"\0" * 16, entity_uid=driver.ref().uid)
    plan.target.parts = [*plan.target.parts, lost]
    return plan


def transaction_alone(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1", scheduled_ms=[driver.wall_ms + 9_000] * 2)
    parts = [CancelPart([1]), CancelPart([2])]
    return _around(driver, TransactAlone("t", driver.ref(), b"transaction-0001", parts))


def transfer(driver: Driver) -> Plan:
    make_queues(driver)
    driver.create("third")
    driver.send(b"old", partition_keys=["k"])
    [(_, token)] = driver.receive(1)
    parts: list[Append | Settle | Transfer] = [
        Settle(None, 0, D.COMPLETE, token, entity_uid=driver.ref().uid),
        Transfer(driver.ref("other"), Batch([b"x", b"y"])),
        Transfer(driver.ref("third"), Batch([b"z"])),
    ]
    return _around(driver, Transact("t", driver.ref(), b"transaction-0001", parts))


def reserve_numbers(driver: Driver) -> Plan:
    make_queues(driver)
    return _around(driver, ReserveNumbers("t", driver.ref(), 3))


def transaction_reserved(driver: Driver) -> Plan:
    make_queues(driver)
    driver.run(ReserveNumbers("r", driver.ref(), 2))
    due_ms = [driver.wall_ms + 9_000] * 2
    part = Append(None, driver.ref(), Batch([b"0", b"1"], scheduled_ms=due_ms, reserved=[2, 0]))
    return _around(driver, TransactAlone("t", driver.ref(), b"transaction-0001", [part]))


COMMANDS: Final[dict[str, Scenario]] = {
    each.__name__: each
    for each in (
        transaction, transaction_refused, transaction_alone, transfer, reserve_numbers,
        transaction_reserved,
    )
}  # fmt: skip
