"""Outputs of deployments inside a template, to which other parts of it refer. Pure.

    reference(resourceId('Microsoft.Resources/deployments', 'bus')).outputs.name.value
    reference('symbol').outputs.name.value

Bicep compiles what one module takes from another so. Other results of `reference` only Azure has.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from bendybus.crds.imports.arm_evaluation import UNKNOWN, Evaluation
from bendybus.crds.imports.arm_expressions import TemplateError
from bendybus.crds.imports.arm_functions import part

DEPLOYMENTS: Final = "microsoft.resources/deployments"
# The evaluation of the template inside a deployment; None: it has none.
Inside = Callable[[Any], Evaluation | None]
# An evaluation is made for each output that is read.
_STEPS: Final = 20


class Modules:
    """The deployments of one template. `evaluation`: of that template."""

    def __init__(self, resources: Any, evaluation: Evaluation, inside: Inside) -> None:
        self._resources = resources
        self._evaluation = evaluation
        self._inside = inside
        self._by_name: dict[str, Any] | None = None
        self._known: dict[tuple[str, str], Any] = {}

    def output(self, target: str, name: str) -> Any:
        """Return an output of the deployment with an id, or a symbol. UNKNOWN: it has none here.

        Raises TemplateError.
        """
        if self._by_name is None:
            self._by_name = dict(self._named())
        key = target.rpartition("/")[2].lower(), name.lower()
        if key not in self._known:
            self._evaluation.budget.spend(_STEPS)
            self._known[key] = self._read(self._by_name.get(key[0]), name)
        return self._known[key]

    def _read(self, properties: Any, name: str) -> Any:
        written = part(part(part(properties, "template"), "outputs"), name)
        if not isinstance(written, dict):
            return UNKNOWN
        inside = self._inside(properties)
        return UNKNOWN if inside is None else inside.value(part(written, "value"))

    def _named(self) -> Iterator[tuple[str, Any]]:
        """Yield properties of deployments by their names, and by their symbols after that."""
        symbols = self._resources if isinstance(self._resources, dict) else {}
        found = self._resources if isinstance(self._resources, list) else symbols.values()
        deployments = [each for each in found if str(part(each, "type")).lower() == DEPLOYMENTS]
        for each in deployments:
            try:
                name = self._evaluation.value(part(each, "name"))
            except TemplateError:
                # It is said where the deployment is read.
                continue
            yield str(name).lower(), part(each, "properties")
        for symbol, each in symbols.items():
            if each in deployments:
                yield symbol.lower(), part(each, "properties")
