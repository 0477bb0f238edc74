"""The findings of a report about fields that were not simply taken."""

from bendybus.crds.conversion import Conversion, Finding, Outcome


def reported(found: Conversion) -> list[Finding]:
    """Return the findings of fields in the file that a person should know of."""
    quiet = (Outcome.TAKEN, Outcome.DEFAULT)
    return [each for each in found.findings if each.outcome not in quiet]
