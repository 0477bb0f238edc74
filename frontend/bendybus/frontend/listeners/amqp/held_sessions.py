"""The sessions that the links of one AMQP connection hold, found without a look at every link."""

from bendybus.frontend.core.sessions import LockedSession


class HeldSessions:
    """See the module."""

    def __init__(self) -> None:
        # By the name of the link; by path, in lower case, and id, the one locked last at the end.
        self._by_link: dict[str, dict[bytes, tuple[str, LockedSession]]] = {}
        self._by_id: dict[tuple[str, str], dict[bytes, LockedSession]] = {}

    def add(self, path: str, link_name: str, session: LockedSession) -> None:
        """Take note of a session that a link has locked."""
        entry = (path.lower(), session)
        self._by_link.setdefault(link_name, {})[session.token] = entry
        self._by_id.setdefault((path.lower(), session.session_id), {})[session.token] = session

    def remove(self, path: str, link_name: str, session: LockedSession) -> None:
        """Take note that a link holds a session no more."""
        named = self._by_link[link_name]
        del named[session.token]
        if not named:
            del self._by_link[link_name]
        key = (path.lower(), session.session_id)
        held = self._by_id[key]
        del held[session.token]
        if not held:
            del self._by_id[key]

    def token(self, path: str, session_id: str | None, link_name: str) -> bytes | None:
        """Return the token of a session of an entity, or None; see `session_token`."""
        for at, session in self._by_link.get(link_name, {}).values():
            if at == path.lower() and session_id in (None, session.session_id):
                return session.token
        if session_id is None:
            return None
        return next(reversed(self._by_id.get((path.lower(), session_id), {})), None)
