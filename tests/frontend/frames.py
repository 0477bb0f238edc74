"""Frames of clients, put in as the listener does."""

from collections.abc import Callable
from functools import partial

from bendybus.domain.errors import BusError
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import SendDispatcher, SendOutcome
from bendybus.frontend.listeners import sender_service
from bendybus.v1 import sender_pb2


def submit(
    sends: SendDispatcher,
    frame: sender_pb2.SendStreamRequest,
    answer: Callable[[sender_pb2.SendStreamResponse], object],
    *,
    client: str = "",
) -> None:
    """Start a frame; `answer` gets what its client is told."""

    def respond(frame_id: int, result: SendOutcome | BusError) -> None:
        answer(sender_service.to_response(frame_id, result))

    sends.submit(
        sender_service.to_request(frame), partial(respond, frame.frame_id), Holder(client, "")
    )
