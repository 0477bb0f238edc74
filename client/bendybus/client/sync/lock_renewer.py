"""The lock renewer of the synchronous surface."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from bendybus.client.core.lock_renewer import DURATION_S_DEFAULT, BaseLockRenewer, Failure, Renewal
from bendybus.client.exceptions import ServiceBusError


class AutoLockRenewer(BaseLockRenewer):
    """Renews locks in the background; callbacks run on threads of `executor`."""

    def __init__(
        self,
        max_lock_renewal_duration: float = DURATION_S_DEFAULT,
        on_lock_renew_failure: Failure | None = None,
        executor: ThreadPoolExecutor | None = None,
        max_workers: int | None = None,
    ) -> None:
        """Create a renewer.

        `max_lock_renewal_duration`: for how many seconds a lock is renewed.
        `on_lock_renew_failure`: called with the message and the error when a lock is lost.
        `executor` and `max_workers`: the threads that call back; None: one thread of its own.
        """
        super().__init__(max_lock_renewal_duration, on_lock_renew_failure)
        self._executor = executor
        self._owns_executor = executor is None
        self._max_workers = max_workers or 1
        self._lock = threading.Lock()

    def __enter__(self) -> "AutoLockRenewer":
        self._check_open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, wait: bool = True) -> None:
        """Stop renewing; `wait`: also wait for running callbacks."""
        self._end()
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and self._owns_executor:
            executor.shutdown(wait=wait)

    def _notify(self, entry: Renewal, error: ServiceBusError) -> None:
        # Never on the I/O thread: a callback of the application may block.
        with self._lock:
            if self._closed:
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(
                    self._max_workers, thread_name_prefix="bendybus-callback"
                )
            if entry.fail is not None:
                self._executor.submit(entry.fail, entry.message, error)
