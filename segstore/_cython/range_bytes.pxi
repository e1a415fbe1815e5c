# range_bytes.pxi - bytes that were read of a file, in memory that is used again
#
# The system takes ten times as long to give a new page as a copy into a page takes that is there. Large allocations
# come from the system and go back to it: a file that is read piece by piece costs each page again. So bytes whose views
# are all gone leave their memory to the next ones.

cdef enum:
    SPARE_BLOCKS = 4
    LARGEST_SPARE_BYTES = 8519680  # of a request of 8 MiB, as ranges of objects are fetched ahead
    BLOCK_STEP_BYTES = 65536
    PAGE_BYTES = 4096

cdef sgs_buffer[SPARE_BLOCKS] spare_blocks  # what was let go last is last
cdef int spare_count = 0


cdef void take_block(sgs_buffer *block, size_t wanted) noexcept:
    """The spare block that was let go last, of those that are as large and not far larger; an empty one without any."""
    global spare_count
    cdef int i
    for i in range(spare_count - 1, -1, -1):
        if wanted <= spare_blocks[i].capacity <= 2 * wanted + BLOCK_STEP_BYTES:
            block[0] = spare_blocks[i]
            spare_count -= 1
            memmove(&spare_blocks[i], &spare_blocks[i + 1], (spare_count - i) * sizeof(sgs_buffer))
            return
    sgs_buffer_init(block, memory)


cdef void let_go(sgs_buffer *block) noexcept:
    """Keep a block in the place of the one that was let go first."""
    global spare_count
    if block.data == NULL or block.capacity > LARGEST_SPARE_BYTES:
        sgs_buffer_deinit(block)
        return
    if spare_count == SPARE_BLOCKS:
        sgs_buffer_deinit(&spare_blocks[0])
        spare_count -= 1
        memmove(&spare_blocks[0], &spare_blocks[1], spare_count * sizeof(sgs_buffer))
    spare_blocks[spare_count] = block[0]
    spare_count += 1


@cython.final
@cython.no_gc
cdef class RangeBytes:
    """Bytes of a file, owned; read-only buffer."""

    cdef sgs_buffer block
    cdef sgs_buffer content  # a part of the block
    cdef bint may_write  # the next view may

    def __cinit__(self):
        sgs_buffer_init(&self.block, memory)
        sgs_buffer_init(&self.content, memory)

    def __dealloc__(self):
        let_go(&self.block)

    @staticmethod
    def filled(int64_t size, int64_t position, fill):
        """Bytes that *fill* has written into the memory that it was given."""
        cdef RangeBytes found = RangeBytes.__new__(RangeBytes)
        cdef sgs_error err
        require_range(position, size)
        check(found.make_room(<size_t>size, position, &err), &err)
        found.content.size = <size_t>size
        found.may_write = True
        with memoryview(found) as target:
            found.may_write = False
            fill(target)
        return found

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        describe_bytes(&self.content, not self.may_write, buffer, flags)
        buffer.obj = self

    cdef sgs_status make_room(self, size_t size, int64_t position, sgs_error *err) noexcept:
        """Have room for bytes from a position of a file on.

        They begin at the same place in a page as in the file: processors take four times as long for a copy that is
        written a few bytes ahead of what it reads, where only the places in their pages count.
        """
        cdef size_t wanted = (size + PAGE_BYTES) // BLOCK_STEP_BYTES * BLOCK_STEP_BYTES + BLOCK_STEP_BYTES
        cdef sgs_status status
        take_block(&self.block, wanted)
        status = sgs_buffer_reserve(&self.block, wanted, err)
        if status == SGS_OK:
            self.content.data = self.block.data + (<size_t>position - <size_t>self.block.data) % PAGE_BYTES
        return status
