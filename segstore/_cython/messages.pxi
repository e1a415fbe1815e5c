# messages.pxi - messages of Kafka's generated formats, read by schema into a tree of values
#
# Both forms, fixed and flexible. Bounds are checked before anything is taken, and nothing is allocated by a claimed
# count [DUR-87, DUR-88]. The errors say what Kafka's say, for a dump prints them.

cdef enum:
    MAX_MESSAGE_STRING_BYTES = 0x7FFF
    UUID_BYTES = 16
    KEPT_UUIDS_BITS = 12

    MESSAGE_STRUCTURE = 0
    MESSAGE_BOOL
    MESSAGE_INT8
    MESSAGE_INT16
    MESSAGE_UINT16
    MESSAGE_INT32
    MESSAGE_UINT32
    MESSAGE_INT64
    MESSAGE_FLOAT64
    MESSAGE_UUID
    MESSAGE_STRING
    MESSAGE_BYTES

cdef dict MESSAGE_KINDS = {
    "bool": MESSAGE_BOOL,
    "int8": MESSAGE_INT8,
    "int16": MESSAGE_INT16,
    "uint16": MESSAGE_UINT16,
    "int32": MESSAGE_INT32,
    "uint32": MESSAGE_UINT32,
    "int64": MESSAGE_INT64,
    "float64": MESSAGE_FLOAT64,
    "uuid": MESSAGE_UUID,
    "string": MESSAGE_STRING,
    "bytes": MESSAGE_BYTES,
}
cdef object left_out = object()  # in the place of a field that a message does not have

# Most records name one of few topics and directories. A slot for each hash: a later id takes the slot.
cdef uint8_t kept_uuid_bytes[1 << KEPT_UUIDS_BITS][UUID_BYTES]
cdef list kept_uuids = [None] * (1 << KEPT_UUIDS_BITS)
cdef object uuid_type = None  # of a module that the first schema imports


class MessageError(Exception):
    """A message that Kafka cannot read either; the text is Kafka's."""


cdef object message_underflow():
    """What Java's ``BufferUnderflowException`` says: nothing."""
    return MessageError("null")


cdef object null_refused(str name):
    return MessageError(f"non-nullable field {name} was serialized as null")


cdef object uuid_of(const uint8_t *data):
    cdef uint64_t mixed = (sgs_load_be64(data) * 31 ^ sgs_load_be64(data + 8)) * <uint64_t>0x9E3779B97F4A7C15
    cdef Py_ssize_t slot = <Py_ssize_t>(mixed >> (64 - KEPT_UUIDS_BITS))
    cdef object found = kept_uuids[slot]
    if found is None or memcmp(kept_uuid_bytes[slot], data, UUID_BYTES) != 0:
        found = uuid_type(bytes=PyBytes_FromStringAndSize(<const char *>data, UUID_BYTES))
        memcpy(kept_uuid_bytes[slot], data, UUID_BYTES)
        kept_uuids[slot] = found
    return found


@cython.final
cdef class MessageField:
    """One field; equal to itself alone."""

    cdef readonly str name
    cdef readonly str kind
    cdef readonly bint is_array
    cdef readonly bint is_nullable
    cdef readonly object versions
    cdef readonly object tag
    cdef readonly object default
    cdef readonly tuple fields  # None for a primitive
    cdef int32_t first_version
    cdef int32_t last_version
    cdef int32_t tag_number  # -1 for none
    cdef int kind_number

    def __cinit__(self, str name not None, str kind not None, *, bint is_array, bint is_nullable, versions, tag,
                  default, tuple fields):
        self.name = name
        self.kind = kind
        self.is_array = is_array
        self.is_nullable = is_nullable
        self.versions = versions
        self.first_version = versions.first
        self.last_version = versions.last
        self.tag = tag
        self.tag_number = -1 if tag is None else tag
        self.default = default
        self.fields = None if fields is None else checked_fields(fields)
        self.kind_number = MESSAGE_KINDS[kind] if fields is None else MESSAGE_STRUCTURE


cdef tuple checked_fields(tuple fields):
    """The same; what reads them takes their class for granted."""
    for field in fields:
        if type(field) is not MessageField:
            raise ArgumentTypeError(
                f"a field of a message is {type(field).__name__}", found=type(field).__name__, expected="MessageField"
            )
    return fields


@cython.final
cdef class MessageSchema:
    """One message; ``key`` is its id among its kind."""

    cdef readonly str name
    cdef readonly int32_t key
    cdef readonly object versions
    cdef readonly object flexible
    cdef readonly tuple fields
    cdef int32_t first_version
    cdef int32_t last_version
    cdef int32_t first_flexible
    cdef int32_t last_flexible

    def __cinit__(self, str name not None, int32_t key, versions, flexible, tuple fields not None):
        global uuid_type
        if uuid_type is None:
            from uuid import UUID
            uuid_type = UUID
        self.name = name
        self.key = key
        self.versions = versions
        self.first_version = versions.first
        self.last_version = versions.last
        self.flexible = flexible
        self.first_flexible = flexible.first
        self.last_flexible = flexible.last
        self.fields = checked_fields(fields)


@cython.final
cdef class MessageReader:
    """Fields out of bytes, one after the other."""

    cdef bytes data
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int32_t version
    cdef int32_t last_version
    cdef bint is_flexible

    def __cinit__(self, bytes data not None):
        self.data = data
        self.at = <const uint8_t *>PyBytes_AS_STRING(data)
        self.end = self.at + PyBytes_GET_SIZE(data)

    @property
    def remaining(self):
        """Bytes behind what was read."""
        return self.end - self.at

    def int16(self):
        """Read a big-endian number."""
        return sgs_load_be_i16(self.fixed(2))

    def message(self, MessageSchema schema not None, int32_t version):
        """Read the fields of *schema* in this version, in the order of Kafka's JSON."""
        return self.fields_of(schema, version)

    cdef dict fields_of(self, MessageSchema schema, int32_t version):
        self.version = version
        self.last_version = schema.last_version
        self.is_flexible = schema.first_flexible <= version <= schema.last_flexible
        return self.structure(schema.fields)

    cdef const uint8_t *fixed(self, Py_ssize_t size) except NULL:
        """Pass over a number of *size* bytes; return where it begins."""
        cdef const uint8_t *start = self.at
        if self.end - start < size:
            raise message_underflow()
        self.at = start + size
        return start

    cdef const uint8_t *array(self, int32_t size) except NULL:
        """Pass over *size* bytes; return where they begin."""
        cdef const uint8_t *start = self.at
        cdef Py_ssize_t remaining = self.end - start
        if size > remaining:
            raise MessageError(f"Error reading byte array of {size} byte(s): only {remaining} byte(s) available")
        if size < 0:
            raise MessageError(str(size))
        self.at = start + size
        return start

    cdef inline int32_t varint(self) except? -1:
        """Read a varint of at most 5 bytes, as a Java ``int``: above 2^31 it is negative."""
        cdef const uint8_t *start = self.at
        if start < self.end and start[0] < 0x80:  # most have one byte
            self.at = start + 1
            return start[0]
        return self.long_varint()

    cdef int32_t long_varint(self) except? -1:
        cdef uint32_t value = 0
        cdef uint32_t byte = 0
        cdef int shift
        for shift in range(0, 35, 7):
            byte = self.fixed(1)[0]
            if shift < 28 or byte < 0x80:
                value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return <int32_t>value
        value |= byte << 28  # Kafka adds the fifth byte with its sign, then says what came out
        raise MessageError(
            f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value:x}"
        )

    cdef dict structure(self, tuple fields):
        cdef list values = []
        cdef dict found = {}
        cdef MessageField field
        cdef Py_ssize_t i
        for i in range(PyTuple_GET_SIZE(fields)):
            field = <MessageField>fields[i]
            if field.tag_number < 0 and field.first_version <= self.version <= field.last_version:
                values.append(self.field(field))
            else:
                values.append(left_out)
        if self.is_flexible:
            self.tagged_fields(fields, values)
        for i in range(PyTuple_GET_SIZE(fields)):
            if values[i] is not left_out:
                found[(<MessageField>fields[i]).name] = values[i]
        return found

    cdef int tagged_fields(self, tuple fields, list values) except -1:
        """Put tagged fields among the *values*; what equals its default is left out, as in Kafka's JSON."""
        cdef int32_t count = self.varint()
        cdef int32_t tag, size
        cdef Py_ssize_t i
        cdef MessageField field
        while count > 0:  # each takes bytes: a claimed count reads no further than these
            count -= 1
            tag = self.varint()
            size = self.varint()
            i = index_of_tag(fields, tag)
            if i < 0:
                self.array(size)
                continue
            field = <MessageField>fields[i]
            if not field.first_version <= self.version <= field.last_version:
                raise MessageError(f"Tag {tag} is not valid for version {self.version}")
            value = self.field(field)
            values[i] = left_out if value == field.default else value
        return 0

    cdef object field(self, MessageField field):
        if field.is_array:
            return self.elements(field)
        if field.is_nullable and field.kind_number == MESSAGE_STRUCTURE and not self.is_there(field):
            return None
        return self.value(field)

    cdef bint is_there(self, MessageField field) except -1:
        """Read the mark in front of a nullable structure."""
        return <int8_t>self.fixed(1)[0] >= 0 if field.tag_number < 0 else self.varint() > 0

    cdef list elements(self, MessageField field):
        cdef int32_t count = self.size(4)
        cdef Py_ssize_t remaining = self.end - self.at
        cdef list found
        if count < 0:
            if not field.is_nullable:
                raise null_refused(field.name)
            return None
        if count > remaining:  # an element takes a byte at least
            raise MessageError(
                f"Tried to allocate a collection of size {count}, but there are only {remaining} bytes remaining."
            )
        found = []
        while count > 0:
            count -= 1
            found.append(self.value(field))
        return found

    cdef inline int32_t size(self, int fixed_bytes) except? -1:
        """Read how many bytes or elements follow; below 0 = null."""
        if self.is_flexible:
            return <int32_t>(<uint32_t>self.varint() - 1)
        return sgs_load_be_i32(self.fixed(4)) if fixed_bytes == 4 else sgs_load_be_i16(self.fixed(2))

    cdef object value(self, MessageField field):
        """Read a value, or an element of an array."""
        cdef uint64_t bits
        cdef double number
        if field.kind_number == MESSAGE_INT32:
            return sgs_load_be_i32(self.fixed(4))
        elif field.kind_number == MESSAGE_UUID:
            return uuid_of(self.fixed(UUID_BYTES))
        elif field.kind_number == MESSAGE_STRING:
            return self.string(field)
        elif field.kind_number == MESSAGE_BYTES:
            return self.bytes_or_null(field)
        elif field.kind_number == MESSAGE_BOOL:
            return self.fixed(1)[0] != 0
        elif field.kind_number == MESSAGE_INT8:
            return <int8_t>self.fixed(1)[0]
        elif field.kind_number == MESSAGE_INT16:
            return sgs_load_be_i16(self.fixed(2))
        elif field.kind_number == MESSAGE_UINT16:
            return sgs_load_be16(self.fixed(2))
        elif field.kind_number == MESSAGE_UINT32:
            return sgs_load_be32(self.fixed(4))
        elif field.kind_number == MESSAGE_INT64:
            return sgs_load_be_i64(self.fixed(8))
        elif field.kind_number == MESSAGE_FLOAT64:
            bits = sgs_load_be64(self.fixed(8))
            memcpy(&number, &bits, sizeof(number))
            return number
        if self.version > self.last_version:  # of the message itself Kafka does not look at it
            raise MessageError(f"Can't read version {self.version} of {field.kind}")
        return self.structure(field.fields)

    cdef str string(self, MessageField field):
        cdef int32_t size = self.size(2)
        cdef sgs_bytes text
        if 0 <= size <= MAX_MESSAGE_STRING_BYTES:
            text.data = self.array(size)
            text.size = size
            return text_of(text)
        name = f"{field.name} element" if field.is_array else field.name
        if size > 0:
            raise MessageError(f"string field {name} had invalid length {size}")
        if field.is_array or not field.is_nullable:
            raise null_refused(name)
        return None

    cdef bytes bytes_or_null(self, MessageField field):
        cdef int32_t size = self.size(4)
        if size >= 0:
            return PyBytes_FromStringAndSize(<const char *>self.array(size), size)
        if not field.is_nullable:
            raise null_refused(field.name)
        return None


cdef Py_ssize_t index_of_tag(tuple fields, int32_t tag) noexcept:
    """Which of the fields has a tag; -1 for none."""
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(fields)):
        if tag >= 0 and (<MessageField>fields[i]).tag_number == tag:
            return i
    return -1
