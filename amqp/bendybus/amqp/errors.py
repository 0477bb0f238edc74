"""What can go wrong in the engine.

AmqpError
├── DecodeError      bytes are not valid AMQP
│   ├── FieldError   a field of a message has the wrong type
│   └── TooManyError a batch has more messages than its reader takes
└── ProtocolError    a frame violates the protocol; `condition` is sent to the peer
"""


class AmqpError(Exception):
    """Raised when the peer, or the caller of the engine, breaks a rule of AMQP 1.0."""


class DecodeError(AmqpError):
    """Raised when bytes are not the encoding of what is expected."""


class FieldError(DecodeError):
    """Raised when a field of a message has the wrong type.

    `field`: its name in the specification, such as message-id; `reason`: what it must be.
    """

    def __init__(self, section: str, field: str, reason: str) -> None:
        super().__init__(section, field, reason)
        self.section = section
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.section}.{self.field}: {self.reason}"


class TooManyError(DecodeError):
    """Raised when a batch has more messages than its reader takes."""


class ProtocolError(AmqpError):
    """Raised when a frame is not allowed now, or names something that does not exist.

    `condition`: the symbol that is sent to the peer, such as amqp:connection:framing-error.
    """

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description

    def __reduce__(self) -> tuple[type["ProtocolError"], tuple[str, str]]:
        return type(self), (self.condition, self.description)
