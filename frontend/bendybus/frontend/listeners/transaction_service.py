"""bendybus.v1.TransactionService: one transaction at a time on a stream. No rules here."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from bendybus.domain import errors, limits, transactions
from bendybus.domain.errors import BusError
from bendybus.frontend.core import transact
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.transact import Commit, Open
from bendybus.frontend.core.transact import Operation as Collected
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Caller, Operation
from bendybus.frontend.upstreams.unary_calls import Result, SendPart, SettlePart
from bendybus.v1 import transaction_pb2, transaction_pb2_grpc
from bendybus.wire import frame_forms, statuses
from bendybus.wire.contract_versions import CLIENT
from bendybus.wire.streams import ADMITTED

Request = transaction_pb2.TransactRequest
Response = transaction_pb2.TransactResponse


class TransactionService(transaction_pb2_grpc.TransactionServiceServicer):
    """Collects transactions and commits them."""

    def __init__(self, front_end: FrontEnd, streams: ClientStreams) -> None:
        self._front_end = front_end
        self._streams = streams

    async def Transact(self, _: AsyncIterator[Any], context: Context) -> AsyncIterator[Response]:
        """Answer one request after the other; the next is read when its answer was written."""
        async with statuses.errors_as_status(context):
            with self._streams.opened(context) as opened:
                await context.send_initial_metadata((ADMITTED, CLIENT.said))
                stream = TransactionStream(self._front_end, opened.caller, opened.holder)
                requests = _Requests(opened.frames(context, Request))
                open_ = self._front_end.metrics.connections.track_inprogress()
                with open_, self._streams.stream(opened, requests.end):
                    try:
                        while (request := await requests.next()) is not None:
                            answer = await stream.answer(request)
                            # Its room is given back while the next one is waited for.
                            del request
                            yield answer
                    finally:
                        # STRICTLY NOT committed: what is open is rolled back with its stream.
                        stream.close()


class _Requests:
    """The requests of a stream, until it ends or is to end."""

    def __init__(self, iterator: AsyncIterator[Request]) -> None:
        self._iterator = iterator
        self._reading: asyncio.Future[Request | None] | None = None
        self._ended = False

    async def next(self) -> Request | None:
        """Return the next one; None at the end."""
        if self._ended:
            return None
        # None at the end: nobody takes an exception from it once the call is over.
        reading = self._reading = asyncio.ensure_future(anext(self._iterator, None))
        try:
            await asyncio.wait([reading])
        finally:
            if not reading.done():
                reading.cancel()
            # It keeps what was read.
            self._reading = None
        return None if reading.cancelled() else reading.result()

    def end(self) -> None:
        """Read no more: the client opens another stream."""
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()


class TransactionStream:
    """The transaction that is open on a stream, if there is one."""

    def __init__(self, front_end: FrontEnd, caller: Caller, holder: Holder) -> None:
        self._front_end = front_end
        self._transactions = front_end.transactions
        self._caller = caller
        self._holder = holder
        self._opened: Open | None = None
        # The id of the one before: what comes late for it must not begin another.
        self._over = b""

    async def answer(self, request: Request) -> Response:
        """Do what a request asks for."""
        end = request.WhichOneof("end")
        doubtful = request.commit.age_ms > 0
        try:
            opened = self._of(request)
        except BusError as error:
            return self._refused(request, error, ended=self._opened is None, doubtful=doubtful)
        if end is not None:
            self._opened, self._over = None, request.transaction_id
        try:
            if end == "rollback":
                self._transactions.forget(opened)
                return Response(ended=True)
            if len(request.operations) > limits.TRANSACTION_MESSAGES_MAX:
                # Before they are copied: each operation has at least one message.
                transactions.check_size(len(request.operations), 0)
            operations = [self._operation(each) for each in request.operations]
            if end is None:
                self._transactions.collect(opened, operations)
                return Response()
        except BusError as error:
            if opened.ended is not None:
                self._opened, self._over = None, request.transaction_id
            if self._opened is None:
                self._transactions.forget(opened, "refused")
            return self._refused(request, error, ended=self._opened is None, doubtful=doubtful)
        commit = Commit(operations, request.commit.timeout_ms, request.commit.age_ms)
        try:
            return _committed(await self._transactions.commit(opened, commit))
        except BusError as error:
            return self._refused(request, error, ended=True)

    def close(self) -> None:
        """Roll back what is open."""
        if self._opened is not None:
            self._transactions.forget(self._opened)
            self._opened = None

    def _of(self, request: Request) -> Open:
        """Return the open transaction of a request; the first one begins it."""
        if self._over == request.transaction_id:
            raise errors.InvalidOperation(
                "the transaction has ended: it was committed or rolled back. Begin another one."
            )
        if self._opened is None:
            self._opened = self._transactions.begin(
                request.transaction_id, self._holder, age_ms=request.age_ms
            )
        elif self._opened.transaction.transaction_id != request.transaction_id:
            raise errors.InvalidArgument(
                "transaction_id",
                "another transaction is open on this stream. Commit it or roll it back first.",
            )
        return self._opened

    def _operation(self, proto: transaction_pb2.TransactionOperation) -> Collected:
        kind = proto.WhichOneof("kind")
        if kind == "send":
            send = proto.send
            self._caller.check(Operation.SEND, send.entity_path)
            path = request_values.entity_and_sub_queue(send.entity_path)
            return Collected(*path, SendPart(frame_forms.kept(send.batch)))
        if kind == "settle":
            settle = proto.settle
            # As a receiver of the entity, which its lock tokens do not name.
            self._caller.check(Operation.RECEIVE, settle.entity_path)
            path = request_values.entity_and_sub_queue(settle.entity_path)
            return Collected(
                *path,
                SettlePart(
                    request_values.disposition(settle.disposition),
                    settle.lock_tokens,
                    frame_forms.kept(settle.changed_properties)
                    if settle.HasField("changed_properties")
                    else None,
                    settle.dead_letter_reason,
                    settle.dead_letter_error_description,
                    settle.session_token,
                ),
            )
        raise errors.InvalidArgument("operations", "each must be a send or a settlement.")

    def _refused(
        self, request: Request, error: BusError, *, ended: bool, doubtful: bool = False
    ) -> Response:
        """Return why not. `doubtful`: an earlier commit of the transaction may have been done."""
        first = next(iter(request.operations), transaction_pb2.TransactionOperation())
        path = first.send.entity_path or first.settle.entity_path
        self._front_end.metrics.refused(path, error)
        if doubtful:
            error = transact.in_doubt(error)
        return Response(error=statuses.to_error(error), ended=ended)


def _committed(results: list[Result]) -> Response:
    return Response(
        ended=True,
        results=[
            transaction_pb2.TransactionResult(
                sequence_numbers=result.numbers,
                duplicates=result.duplicates,
                locked_until_ms=result.locked_until_ms,
                lock_remaining_ms=result.lock_remaining_ms,
            )
            for result in results
        ],
    )
