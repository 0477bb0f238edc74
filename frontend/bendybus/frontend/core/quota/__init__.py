"""The bounds on callers of a front end, and the turns of its event loop.

    who      a connection, which belongs to a policy, and all; the entity, where one is named
    what     `bounds`: bytes, calls, streams, links, transactions; one table, with the shares
    counted  `room`: by connection, policy, entity and all; `flow_control`: what a connection has
             not read or settled
    doors    `doors`: who makes room when there are too many connections
    time     `turns`: how long input is processed at a time, and whose is next

Listeners of all protocols name the holder and the size; no other rule is theirs. A frame, a request
or a turn is charged, never a message.
"""
