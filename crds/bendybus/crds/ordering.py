"""The order in which entities are made: destinations before what forwards to them."""

from collections.abc import Callable, Iterable


def in_order(names: Iterable[str], needs: Callable[[str], Iterable[str]]) -> list[str]:
    """Return names in their order, but each after those that it needs.

    `needs`: names that may be among them. Of names that need each other, the one that is reached
    last comes first. Chains may be as long as there are names.
    """
    known = list(dict.fromkeys(names))
    among = set(known)
    made: dict[str, None] = {}
    under_way: set[str] = set()
    for first in known:
        waiting = [first]
        while waiting:
            name = waiting[-1]
            if name in made or name in under_way:
                waiting.pop()
                made.setdefault(name)
            else:
                under_way.add(name)
                waiting += [
                    each
                    for each in reversed(list(needs(name)))
                    if each in among and each not in under_way
                ]
    return list(made)
