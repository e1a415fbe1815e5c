# kept_tuples.pxi - named tuples, filled without the call of their Python function
#
# In the memory of one that nobody has any more, as zip() does with its tuples.

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000 /* from 3.14 on a tuple remembers its hash */
    #define SGS_FORGET_HASH(tuple) (((PyTupleObject *)(tuple))->ob_hash = -1)
    #else
    #define SGS_FORGET_HASH(tuple) ((void)(tuple))
    #endif
    """
    void forget_hash "SGS_FORGET_HASH"(PyObject *)


cdef inline bint is_ours_alone(PyObject *kept) noexcept:
    """Whether the lane has the only reference; None has others."""
    return kept.ob_refcnt == 1


cdef inline void put(object target, Py_ssize_t index, object field) noexcept:
    cdef PyObject *before = borrowed_tuple_item(target, index)
    Py_INCREF(<PyObject *>field)
    set_tuple_item(<PyObject *>target, index, <PyObject *>field)
    Py_XDECREF(before)
