"""What receivers of the simulated bus granted: checks that no link exceeds it."""

from random import Random

from bendybus.frontend.core.credit import Credit
from bendybus.frontend.core.partition_asks import HandOver


class CreditLedger:
    """Credit that has not ended, and how many messages may still come for it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left: dict[Credit, int] = {}
        # How often credit was drained with something left of it.
        self.drained = 0

    def grant(self, credit: Credit) -> Credit:
        """Note new credit."""
        self._left[credit] = credit.messages
        return credit

    def any_that_stays(self) -> Credit | None:
        """Return some credit that does not lapse, to be drained."""
        found = [credit for credit in self._left if not credit.lapses]
        return self._random.choice(found) if found else None

    def use(self, action: HandOver) -> None:
        """Take a delivery, or the end of credit: none may come for what has ended."""
        credit = action.credit
        assert credit in self._left, "credit is used after it lapsed or was drained"
        if not action.slices:
            self.drained += not credit.lapses and self._left[credit] > 0
            del self._left[credit]
            return
        self._left[credit] -= action.messages
        assert self._left[credit] >= 0, "more messages than credit"
        if credit.lapses:
            del self._left[credit]

    def open(self) -> list[Credit]:
        """Return the credit that has not ended."""
        return list(self._left)
