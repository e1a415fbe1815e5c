# framed_messages.pxi - messages with a frame in front, of __cluster_metadata and __remote_log_metadata [format.md 6.4]
#
# Frame version, kind and version as varints, then the message (Kafka AbstractApiMessageSerde).

cdef enum:
    MESSAGE_FRAME_VERSION = 1
    MAX_SHORT = 0x7FFF


class UnknownMessageError(MessageError):
    """The table has no message of this kind."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind

    def __str__(self):
        return (
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {self.kind}"
        )


class UnknownVersionError(MessageError):
    """The table has the message, and not in this version."""

    def __init__(self, schema, version):
        super().__init__(schema, version)
        self.schema, self.version = schema, version

    def __str__(self):
        return f"{self.schema.name} has no version {self.version}"


class FramedMessage(NamedTuple):
    schema: object
    version: int
    fields: dict


cdef int32_t frame_number(MessageReader reader, str what) except? -1:
    """Read a varint as a Java ``short``."""
    cdef int32_t value
    try:
        value = reader.varint()
    except MessageError as error:
        raise MessageError(f"Error while reading {what}") from error
    if value > MAX_SHORT:
        raise MessageError(f"Value for {what} was too large.")
    return value if value >= 0 else <int16_t>value


@cython.final
cdef class FramedMessages:
    """Reads framed messages of one table."""

    cdef dict schemas

    def __cinit__(self, schemas):
        self.schemas = {(<MessageSchema?>schema).key: schema for schema in schemas}

    def read(self, bytes data, *, bint known_versions=False):
        """Read one message, to the last byte."""
        if data is None:
            raise message_underflow()
        cdef MessageReader reader = MessageReader(data)
        cdef int32_t frame = frame_number(reader, "frame version")
        if frame == 0:
            raise MessageError(
                "Could not deserialize metadata record with frame version 0. Note that upgrades "
                "from the preview release of KRaft in 2.8 to newer versions are not supported."
            )
        if frame != MESSAGE_FRAME_VERSION:
            raise MessageError(
                f"Could not deserialize metadata record due to unknown frame version {frame}"
                "(only frame version 1 is supported)"
            )
        cdef int32_t kind = frame_number(reader, "type")
        cdef int32_t version = frame_number(reader, "version")
        cdef MessageSchema schema = self.schemas.get(kind)
        if schema is None:
            raise UnknownMessageError(kind)
        if known_versions and not schema.first_version <= version <= schema.last_version:
            raise UnknownVersionError(schema, version)
        try:
            fields = reader.fields_of(schema, version)
        except MessageError as error:
            raise MessageError(f"Failed to deserialize record with type {kind}") from error
        if reader.at < reader.end:
            raise MessageError(f"Found {reader.end - reader.at} byte(s) of garbage after {kind}")
        cdef object message = new_instance(<PyTypeObject *>FramedMessage, 3)
        put(message, 0, schema)
        put(message, 1, version)
        put(message, 2, fields)
        return message
