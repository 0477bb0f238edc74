"""`python -m bench.filters`: what parsing, evaluating and looking up rules costs. No server.

CPU time, the median of several repetitions: other work on the machine falsifies it little.
"""

import functools
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Final

from bendybus.client.messages import encode
from bendybus.client.messages.message import ServiceBusMessage
from bendybus.domain import message_format
from bendybus.domain.filters import rule, sql_text
from bendybus.domain.filters.rule import CorrelationFilter, Filter, Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.rule_index import RuleIndex
from bendybus.domain.filters.view import Properties
from bendybus.wire import message_properties
from bendybus.wire.message_properties import Parts, View

REPETITIONS: Final = 7
CUSTOMERS: Final = 2_000
MESSAGE: Final = Properties(
    {"type": "order", "customer": "c7", "price": 9.5, "quantity": 3, "region": "eu"},
    {"Label": "orders/new"},
    uuid.uuid4,
)
TEXTS: Final = (
    "customer = 'c7'",
    "price > 5",
    "type = 'order' AND customer = 'c7' AND price > 5",
    "sys.Label LIKE 'orders/%' OR region IN ('eu', 'us')",
    "price * quantity + 1 >= 20 AND NOT (region = 'us' OR discount IS NOT NULL)",
)
SHAPES: Final[dict[str, Callable[[int], Filter]]] = {
    "correlation": lambda n: CorrelationFilter(
        label="orders/new", properties={"customer": f"c{n}"}
    ),
    "SQL with an equality": lambda n: SqlFilter(f"customer = 'c{n}' AND price > 5"),
    "SQL without one": lambda n: SqlFilter(f"price > {n + 100}"),
}


def main() -> int:
    """Print the table."""
    properties: dict[str | bytes, object] = {**MESSAGE.user_properties}  # type: ignore[dict-item]
    head, body = encode.encode(
        ServiceBusMessage(
            b"x" * 256,
            subject="orders/new",
            application_properties=properties,
        )
    )
    parts = Parts(body, message_format.SPLIT, head)
    _print("decode a head of 6 properties", _us(lambda: View(parts, uuid.uuid4).user))
    for text in TEXTS:
        compiled = sql_text.compiled_filter(text, {}, "filter")
        parse = functools.partial(sql_text.compiled_filter, text, {}, "f")
        _print(f"parse     {text}", _us(parse, 20))
        _print(f"evaluate  {text}", _us(lambda each=compiled: each.matches(MESSAGE)))  # type: ignore[misc]
    action = SqlRuleAction("SET total = price * quantity; SET sys.Label = 'large'; REMOVE region")
    acting = rule.compiled(Rule("r", action=action), partitioned=True)
    _print("apply an action of 3 expressions", _us(lambda: acting.changes(MESSAGE)))
    changes = acting.changes(MESSAGE)
    _print("make its copy's head", _us(lambda: message_properties.changed(parts, changes), 200))
    for shape, make in SHAPES.items():
        for count in (1, CUSTOMERS):
            index: RuleIndex[int] = RuleIndex()
            for n in range(count):
                index.add(n, rule.compiled(Rule("r", make(100 + n)), partitioned=True))
            _print(
                f"{count:5,} filters that do not match, {shape}",
                _us(lambda index=index: index.match(MESSAGE), 2_000 // count + 3),  # type: ignore[misc]
            )
    _print("first text of a process: import lark, make the tables", _first_text_us())
    return 0


def _us(call: Callable[[], object], count: int = 2_000) -> float:
    """Return the CPU time of one call, in µs."""
    taken = []
    for _ in range(REPETITIONS):
        began = time.process_time()
        for _ in range(count):
            call()
        taken.append((time.process_time() - began) / count)
    return statistics.median(taken) * 1e6


def _first_text_us() -> float:
    program = (
        "import time\n"
        "from bendybus.domain.filters import sql_text\n"
        "began = time.process_time()\n"
        "sql_text.compiled_filter('a = 1', {}, 'f')\n"
        "print(time.process_time() - began)\n"
    )
    taken = [
        float(
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        )
        for _ in range(REPETITIONS)
    ]
    return statistics.median(taken) * 1e6


def _print(what: str, us: float) -> None:
    print(f"{us:12,.1f} µs  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
