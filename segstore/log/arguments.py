"""Arguments of a log's methods: what is no integer is refused before it becomes one."""

from __future__ import annotations

import operator

from segstore.errors import IllegalArgumentError


def integer(name: str, value: object) -> int:
    """Return *value*, an int or what stands for one exactly (numpy's integers).

    Raises
    ------
    IllegalArgumentError
        For everything else: 1.5 is not offset 1, and "1" is not either.
    """
    if type(value) is int:
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise IllegalArgumentError(
            f"{name} must be an integer, not {value!r}", found=repr(value), expected="an integer"
        ) from None
