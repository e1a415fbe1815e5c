# segment_listing.pxi - the names of a partition directory, without an object for each (csrc/segment/segment_listing.h)

cdef tuple LISTED_KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")  # in the order of their bits


cdef uint32_t bit_of_kind(str kind) except 0:
    if kind not in LISTED_KINDS:
        raise IllegalArgumentError(f"no kind {kind!r}", found=repr(kind), expected=", ".join(LISTED_KINDS))
    return <uint32_t>1 << <int>LISTED_KINDS.index(kind)


@cython.final
@cython.no_gc
cdef class SegmentListing:
    """The names in a directory at one time, parsed and sorted."""

    cdef sgs_segment_listing listing

    def __cinit__(self, names=()):
        cdef bytes encoded
        cdef sgs_error err
        sgs_segment_listing_init(&self.listing, memory)
        for name in names:
            encoded = encoded_name(name)
            check(sgs_segment_listing_add(&self.listing, encoded, &err), &err)
        check(sgs_segment_listing_sort(&self.listing, &err), &err)

    def __dealloc__(self):
        sgs_segment_listing_deinit(&self.listing)

    @property
    def others(self):
        return names_of_text(&self.listing.others)

    def base_offsets(self, str kind not None, *, str lacking=None):
        """Ascending, of the files of one kind; with *lacking* of those beside which that kind is missing."""
        cdef uint32_t wanted = bit_of_kind(kind)
        cdef uint32_t missing = 0 if lacking is None else bit_of_kind(lacking)
        cdef size_t count = 0
        cdef size_t found = 0
        cdef size_t i
        cdef const sgs_listed_segment *rows = sgs_segment_listing_rows(&self.listing, &count)
        cdef array.array offsets = array.clone(array.array("q"), <Py_ssize_t>count, zero=False)
        cdef int64_t *target = <int64_t *>offsets.data.as_voidptr
        for i in range(count):
            if rows[i].kinds & wanted and not rows[i].kinds & missing:
                target[found] = rows[i].base_offset
                found += 1
        array.resize(offsets, <Py_ssize_t>found)
        return offsets
