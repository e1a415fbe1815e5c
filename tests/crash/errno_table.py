"""Which errnos each call of an environment can have: the table of tests/c/failing_errnos.c.

The C core's places and those of the Python classes are failed with the same ones [DUR-111].
"""

from __future__ import annotations

import errno
import functools
import re
from pathlib import Path

ANSWERS = {"file_info_at": errno.ENOENT, "unlink": errno.ENOENT}
"""No errors but what the engine asks for: no system says of a file that is there that it is not."""
SOURCE = Path(__file__).parents[1] / "c" / "failing_errnos.c"


@functools.cache
def applicable_errnos() -> dict[str, tuple[int, ...]]:
    """Return the errnos of each call that can fail, the likeliest first."""
    text = SOURCE.read_text()
    lists = {
        name: tuple(getattr(errno, word) for word in words.split(", ") if word != "0")
        for name, words in re.findall(r"static const int (\w+)\[\] = \{ ([^}]*) \};", text)
    }
    cases = re.findall(r"((?:\s*case MEMORY_ENV_\w+:)+)\s*return (\w+);", text)
    return {
        call: tuple(one for one in lists[name] if one != ANSWERS.get(call))
        for labels, name in cases
        for call in re.findall(r"MEMORY_ENV_(\w+):", labels)
        if call != "allocate"
    }
