"""The exceptions of azure-core that those of the client derive from.

They are azure-core's own where it is installed, so that `except azure.core.exceptions.AzureError`
catches what the client raises, and the classes below of the same names and shape where it is not,
or does not work. `globals().update` makes the choice, which type checkers do not see: to them,
a program has the same types in both environments.
"""

import importlib
import pickle
import sys
from types import TracebackType
from typing import Any


class AzureError(Exception):
    """The base of all errors; `inner_exception` is what caused it."""

    def __init__(self, message: object, *args: Any, **kwargs: Any) -> None:
        self.inner_exception: BaseException | None = kwargs.get("error")
        kind, value, traceback = sys.exc_info()
        self.exc_type: type[Any] = kind or type(self.inner_exception)
        self.exc_value: BaseException | None = value
        self.exc_traceback: TracebackType | None = traceback
        self.exc_msg: str = f"{message}, {self.exc_type.__name__}: {value}"
        self.message: str = str(message)
        self.continuation_token: str | None = kwargs.get("continuation_token")
        super().__init__(self.message, *args)


class ServiceRequestError(AzureError):
    """Raised when a request could not be sent."""


class ServiceResponseError(AzureError):
    """Raised when a request was sent, and its response was not received."""


class ServiceResponseTimeoutError(ServiceResponseError):
    """Raised when the response to a request was not received in time."""


class HttpResponseError(AzureError):
    """Raised when the service rejects a request."""

    def __init__(self, message: object = None, response: Any = None, **kwargs: Any) -> None:
        self.status_code: int | None = response.status_code if response else None
        self.reason: str | None = response.reason if response else None
        self.response: Any = response
        self.model: Any = kwargs.pop("model", None)
        self.error: Any = None
        message = message or f"Operation returned an invalid status '{self.reason}'"
        super().__init__(message, **kwargs)


class ResourceExistsError(HttpResponseError):
    """Raised when what is to be created exists."""


class ResourceNotFoundError(HttpResponseError):
    """Raised when what is named does not exist."""


class ClientAuthenticationError(HttpResponseError):
    """Raised when the service rejects the credentials."""


_BASES = (
    AzureError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ClientAuthenticationError,
)


def _installed() -> dict[str, Any]:
    """Return azure-core's classes by name; {} unless all are there and work as those above do."""
    try:
        module = importlib.import_module("azure.core.exceptions")
        found: dict[str, Any] = {}
        for base in _BASES:
            parent = base.__base__.__name__ if base.__base__ else ""
            # Versions before 1.35 have one class for both kinds of missing responses.
            default = found.get(parent) if base is ServiceResponseTimeoutError else None
            kind: Any = getattr(module, base.__name__, default)
            if not issubclass(kind, found.get(parent, Exception)):
                return {}
            missing = vars(base("")).keys() - vars(kind("")).keys() - {"continuation_token"}
            if missing:
                return {}
            found[base.__name__] = kind
        return found
    except Exception:
        # Whatever is wrong with it: programs that do not use azure-core go on.
        return {}


globals().update(_installed())


def reduced(error: BaseException) -> tuple[Any, ...]:
    """Return what `pickle` keeps of an error: its `__reduce__`.

    Python would call the class with `args`, which fails for those that take keywords only. What
    cannot be pickled, such as a traceback, becomes None.
    """
    state = {name: value if _is_picklable(value) else None for name, value in vars(error).items()}
    return _restored, (type(error), error.args, state)


def _restored(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    made = kind.__new__(kind, *args)
    vars(made).update(state)
    return made


def _is_picklable(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        # What an application put there decides what its `__reduce__` raises.
        return False
    return True
