"""HTTP for clients: administration over ATOM, AMQP over WebSockets, and a health page, on aiohttp.

Rules of entities are in `core` and `domain`; what is here translates. A front end without an HTTP
port loads none of it.
"""
