"""Sessions of Spark Connect: without the JVM, and with functions that run on a server."""

from typing import Any


def is_remote(session: Any) -> bool:
    """Return whether a session is one of Spark Connect. Spark has no other way to tell."""
    return ".connect." in type(session).__module__
