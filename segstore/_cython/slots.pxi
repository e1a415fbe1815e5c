# slots.pxi - what is in a slot of a Python object, read and stored without a call
#
# ``__slots__`` gives an attribute a fixed place. To look it up by its name is a few hundredths of a small append; who
# uses one again and again asks once where it is.

cdef extern from "structmember.h":
    enum:
        T_OBJECT_EX

    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset

cdef extern from *:
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

    PyTypeObject PyMemberDescr_Type


cdef Py_ssize_t place_of_slot(object owner, str name) except -1:
    """Where the slot is in the object, whose class must not be given another one later."""
    cdef object descriptor = getattr(type(owner), name)
    cdef PyMemberDef *member
    if (<PyObject *>descriptor).ob_type != &PyMemberDescr_Type:
        raise TypeError(f"{name} of {type(owner).__name__} is no slot")
    member = (<PyMemberDescrObject *>descriptor).d_member
    if member.type != T_OBJECT_EX:
        raise TypeError(f"{name} of {type(owner).__name__} is a slot of another kind")
    return member.offset


cdef inline PyObject **slot_at(object owner, Py_ssize_t place) noexcept:
    return <PyObject **>(<char *><PyObject *>owner + place)


cdef inline void store_slot(object owner, Py_ssize_t place, object value) noexcept:
    cdef PyObject **slot = slot_at(owner, place)
    cdef PyObject *before = slot[0]
    Py_INCREF(<PyObject *>value)
    slot[0] = <PyObject *>value
    Py_XDECREF(before)


cdef inline object load_slot(object owner, Py_ssize_t place):
    cdef PyObject *value = slot_at(owner, place)[0]
    if value == NULL:
        raise AttributeError(f"a slot of {type(owner).__name__} is empty")
    return <object>value
