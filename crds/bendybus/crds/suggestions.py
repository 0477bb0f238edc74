"""Suggestions for misspelled names.

Apart from the models, which take longer to import than most commands take to run.
"""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a sentence with the name that is most like a word, or with all names."""
    choices = list(names)
    lowered = {name.lower(): name for name in choices}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f" Did you mean {lowered[close[0]]}?"
    return f" Known: {', '.join(choices)}."
