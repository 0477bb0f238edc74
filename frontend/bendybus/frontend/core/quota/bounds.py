"""The table of all bounds on what callers hold of a front end. Pure.

A connection may hold no more than its bound, all connections with one policy no more than that of a
policy, and all callers together no more than that of all. A connection, a policy, an entity or all
that hold nothing accept one item of any size, so that the largest message passes, one at a time.

`docs/reference/security.md` shows `TABLE`. The bounds of single connections, of strangers and of
time follow it.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bendybus.domain.limits import KB, MB

UNBOUNDED: Final = sys.maxsize
# Strangers may have 1/STRANGERS_PART of the connections of a listener.
STRANGERS_PART: Final = 2
# One policy, or one entity, leaves 1/LEFT_PART of the total to others.
LEFT_PART: Final = 10


def share(all_: int) -> int:
    """Return the most that one policy, or one entity, may have of what all may have."""
    return all_ - all_ // LEFT_PART


class Beyond(StrEnum):
    """The fate of a request beyond a bound."""

    BUSY = "is refused as busy"
    WAITS = "waits, and is refused as busy after a while"
    PAUSED = "is not sent before the client has read more"
    GIVEN_BACK = "is given back to its partition"
    UNREAD = "is not read before the client's earlier ones are answered"
    DETACHED = "is refused, and its link is detached"
    CLOSED = "is refused, and its connection is closed"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most of something that a connection, a policy and all may hold.

    `entity`: the most that is about one entity.
    """

    connection: int
    policy: int
    all: int
    # For the table.
    what: str = ""
    beyond: Beyond = Beyond.BUSY
    entity: int = UNBOUNDED
    in_bytes: bool = True


REQUESTS: Final = Bounds(
    *(16 * MB, 64 * MB, 256 * MB),
    *("requests of calls that come slowly, or are under way", Beyond.BUSY),
)
FRAMES: Final = Bounds(
    *(32 * MB, 64 * MB, 256 * MB),
    *("frames of streams, while their streams read them", Beyond.WAITS),
)
ANSWERS: Final = Bounds(
    *(8 * MB, 64 * MB, 128 * MB),
    *("answers of calls that are being made, or are not read yet", Beyond.WAITS),
)
# Room for sixteen receives of 100 messages on one connection.
RECEIVES: Final = Bounds(
    *(32 * MB, 64 * MB, 128 * MB),
    *("answers of receives that wait for messages", Beyond.WAITS),
)
# Unary calls, and requests of HTTP.
CALLS: Final = Bounds(5_000, share(10_000), 10_000, "calls under way", in_bytes=False)
STREAMS: Final = Bounds(5_000, share(10_000), 10_000, "open streams", in_bytes=False)
# Calls about health. gRPC keeps one whose answer is not taken until its connection ends, whatever
# the time limit, so the call keeps its place. All connections together have no bound: nobody can
# take the places of others.
OPEN_CALLS: Final = Bounds(
    *(4, UNBOUNDED, UNBOUNDED),
    *("calls that need no token, until their answers are read", Beyond.BUSY),
    in_bytes=False,
)
# The charge of a send beside its messages, for each of its partitions.
SEND_PART_BYTES: Final = 12 * KB
SENDS: Final = Bounds(
    *(64 * MB, share(256 * MB), 256 * MB),
    *("messages that are being stored", Beyond.BUSY),
    entity=share(256 * MB),
)
# Further frames wait briefly, and are refused then.
SEND_FRAMES: Final = Bounds(
    *(512, UNBOUNDED, UNBOUNDED),
    *("frames of messages that are being stored", Beyond.BUSY),
    in_bytes=False,
)
# A connection holds them until it has read the outcomes, a policy and all until partitions answer:
# each partition settles in one line.
TOKENS: Final = Bounds(
    *(50_000, share(500_000), 500_000),
    *("locks that are being settled or renewed", Beyond.UNREAD),
    in_bytes=False,
)
TRANSACTIONS: Final = Bounds(500, share(5_000), 5_000, "open transactions", in_bytes=False)
TRANSACTION_BYTES: Final = Bounds(
    64 * MB, share(256 * MB), 256 * MB, "messages of open transactions"
)
# By what the state of each takes while it is idle (measured: 2.5 KB for both together). A
# connection may have 5,000 of each.
LINK_BYTES: Final = 4 * KB
LINKS: Final = Bounds(
    *(10_000 * LINK_BYTES, share(40_000 * LINK_BYTES), 40_000 * LINK_BYTES),
    *("sessions and links of AMQP", Beyond.CLOSED),
)
CACHED: Final = Bounds(
    *(16 * MB, UNBOUNDED, 64 * MB),
    *("messages that are received ahead of what their receivers asked for", Beyond.GIVEN_BACK),
)
UNREAD: Final = Bounds(
    *(16 * MB, UNBOUNDED, 128 * MB),
    *("messages that are not read; and as many answers to sends and settlements", Beyond.PAUSED),
)
# A lock that is being settled, with its part of the outcome until that is read. A settlement counts
# for TOKENS_A_FRAME of them at least.
TOKEN_BYTES: Final = 32
# A connection may leave this unread even if all together leave too much.
UNREAD_MIN: Final = 1 * MB


def incomplete(largest_bytes: int) -> Bounds:
    """Return the bounds on incomplete messages, with room for three of the largest size."""
    most = max(32 * MB, 3 * largest_bytes)
    return Bounds(
        *(most // 3, most * 2 // 3, most),
        "deliveries of AMQP, and messages of WebSockets, that are not complete",
        Beyond.DETACHED,
    )


INCOMPLETE: Final = incomplete(0)
TABLE: Final = (
    *(REQUESTS, FRAMES, ANSWERS, RECEIVES, CALLS, STREAMS, OPEN_CALLS, SENDS),
    *(SEND_FRAMES, TOKENS, TRANSACTIONS, TRANSACTION_BYTES, INCOMPLETE, LINKS, CACHED, UNREAD),
)

# Bounds of one connection, or of one stream or link; further input is not read before earlier input
# is answered.

# Sends of AMQP in flight to the core.
SENDS_MAX: Final = 256
# Unsettled deliveries of an AMQP session; it gets no more beyond that.
UNSETTLED_MAX: Final = 50_000
# Settlements of a stream of gRPC.
SETTLES_MAX: Final = 256
# Answers that the client of a stream has not read.
SENDER_ANSWERS_MAX: Final = 512
RECEIVER_ANSWERS_MAX: Final = 2_048
# Receivers that a connection of HTTP keeps: one for each key, entity, sub-queue and mode.
HTTP_RECEIVERS_MAX: Final = 8
# Credits of one receiver.
CREDITS_MAX: Final = 1_000
# Requests of a management link. Half of what fits into the queue of a partition, which refuses more
# as busy.
PERFORMED_MAX: Final = 512
# Links and sessions that a connection may have even when all connections have too many.
LINKS_MIN: Final = 32
# Lists of sessions of which a connection remembers the last places.
SESSION_LISTS_MAX: Final = 16
# Tokens; beyond that the oldest is dropped. SDKs put one for each link's address, and for its
# $management: as many as a connection may have links. And their characters, with their audiences.
CLAIMS_MAX: Final = 10_000
CLAIMS_CHARS_MAX: Final = 2 * MB
# Bytes of output that the client has not read. The lower bound applies to strangers, and to all
# while clients together leave CROWDED_BYTES unread.
UNWRITTEN_MAX: Final = 1 * MB
UNWRITTEN_MIN: Final = 64 * KB
CROWDED_BYTES: Final = 32 * MB
# Bytes of a response of HTTP in its connection's buffer.
UNTAKEN_BYTES: Final = 64 * KB
# The largest WebSocket message. An AMQP frame may be split over several.
WEBSOCKET_BYTES_MAX: Final = 4 * MB
# Bytes of each message of a WebSocket that are not counted while it is incomplete.
MESSAGE_FREE_BYTES: Final = 128 * KB
# Unwritten bytes of a spliced connection of gRPC at which its other side is paused.
SPLICED_BYTES: Final = 64 * KB
# The largest requests of AMQP: to a management node, to the coordinator, and to $cbs, where a token
# with many claims has more than 16 KB; a bus without policies takes it.
MANAGEMENT_BYTES_MAX: Final = 64 * MB
COORDINATOR_BYTES_MAX: Final = 4 * KB
CBS_BYTES_MAX: Final = 128 * KB
# Charges beside the bytes: for the values, the task and the reply of a request to a management
# node; for a reply that waits for the client's credit. A frame of settlements counts for at least
# TOKENS_A_FRAME locks.
MANAGEMENT_REQUEST_BYTES: Final = 4 * KB
REPLY_BYTES: Final = 256
TOKENS_A_FRAME: Final = 50
# A repeated settlement of more than REPEATED_FEW locks counts as REPEATED_TOKENS at least: a
# partition looks for them in up to 65,000 that the receiver settled.
REPEATED_FEW: Final = 16
REPEATED_TOKENS: Final = 5_000
# Charges for a response of administration: for an entry, and for a page of entries.
ENTRY_BYTES: Final = 64 * KB
FEED_BYTES: Final = 2 * MB
# The most refusals of sends that a connection gets in a second; each costs as much as a send.
REFUSALS_A_SECOND: Final = 200
PACE_S: Final = 0.05
# The largest body of a request of HTTP.
BODY_BYTES_MAX: Final = 512 * KB
# Requests up to these sizes, before and after parsing, are not counted: the number of calls bounds
# them.
REQUEST_SMALL_BYTES: Final = 4 * KB
PARSED_SMALL_BYTES: Final = 16 * KB
# A request with many elements is counted by its length up to this bound: a few of them fill the
# share of a connection. Frames up to the second one are counted by length alone.
LOOSE_BYTES: Final = 4 * MB
BY_LENGTH_BYTES: Final = 128 * KB

# Bounds of a stranger's connection: sessions, links, frames, and links that are refused.

STRANGER_SESSIONS: Final = 8
STRANGER_LINKS: Final = 16
STRANGER_FRAMES: Final = 60
STRANGER_REFUSALS: Final = 8
# Bytes accepted on a WebSocket, and in a request. The latter leaves room for a whole body, which
# may arrive before the turn of the event loop in which the token is checked.
UNKNOWN_BYTES_MAX: Final = 96 * KB
UNHEARD_BYTES_MAX: Final = BODY_BYTES_MAX + 256 * KB

# Memory for all callers.

# Unfinished cancellations, of about 200 bytes each, and unconfirmed changes of entities.
UNFINISHED_MAX: Final = 1_000
# Calls of reflection, for which any token is enough, and how long each may take.
ANY_TOKEN_MAX: Final = 64
ANY_TOKEN_S: Final = 60.0

# Time limits of what holds room.

# A request that comes within this time takes no room while it comes: the network limits its size.
AT_ONCE_S: Final = 0.05
# A request, and how much more for each MB that it may have.
REQUEST_S: Final = 10.0
REQUEST_S_PER_MB: Final = 1.0
# An answer that its caller does not take in this time is dropped.
ANSWER_S: Final = 60.0
# The body of a request of HTTP, and a connection of HTTP between two requests.
BODY_S: Final = 10.0
KEEP_ALIVE_S: Final = 30.0
# A receive that does not wait for messages waits so long for room.
ROOM_S_MIN: Final = 0.25
# A frame, and a request of HTTP, that waits for room.
FRAME_ROOM_S: Final = 10.0
HTTP_ROOM_S: Final = 60.0
# A client that reads nothing of a response of HTTP, or nothing over AMQP while its output is over
# its bound, is disconnected.
UNTAKEN_S: Final = 30.0
UNREAD_S: Final = 60.0
# So is a client of gRPC on a shared port that takes nothing for as long as an answer may take.
SPLICED_UNTAKEN_S: Final = ANSWER_S
# A client of AMQP that sends nothing for twice this time is disconnected.
IDLE_MS: Final = 120_000

# The time of the loop.

# Bytes that one read takes, and so the most of a connection that waits for a turn.
READ_BYTES: Final = 32 * KB
STRANGER_READ_BYTES: Final = 4 * KB
# Input of a connection is processed for TURN_S at a time, in pieces of PIECE_BYTES; see `turns`.
TURN_S: Final = 0.001
PIECE_BYTES: Final = 8 * KB
STRANGER_TURN_S: Final = 0.0005
STRANGER_PIECE_BYTES: Final = 1 * KB
# Inputs of known clients that are no larger than a piece are processed at once, for so long
# together in one iteration of the loop.
SMALL_INPUTS_S: Final = 0.01
# Work of one request in one iteration of the loop: elements of a request that are walked, rules and
# entries that are written, and transfers of a link. The SDK for Java has a buffer of 256 transfers,
# which overflows when thousands come in one piece, and drops the rest.
WALK_STEPS_A_TURN: Final = 1_000
RULES_A_TURN: Final = 10
ENTRIES_A_TURN: Final = 10
TRANSFERS_A_TURN: Final = 100
