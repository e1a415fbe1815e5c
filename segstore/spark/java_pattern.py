r"""``subscribePattern`` is a Java regular expression; this turns it into a Python one.

Most patterns are the same in both. Translated are ``\Q…\E``, named groups, ``\z``, ``\Z`` and
the POSIX classes (``\p{Alpha}``). What has no counterpart is refused instead of being understood
in another way.
"""

from __future__ import annotations

import re
from typing import Final

from segstore.spark.conditions import ConnectorOptionError

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~\\"),
    "ASCII": "\\x00-\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_TOKEN: Final = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
      | \\p\{(?P<posix>\w+)\}
      | \(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>
      | \\k<(?P<reference>[a-zA-Z][a-zA-Z0-9]*)>
      | \\(?P<escape>.)
      | (?P<intersection>&&)
      | (?P<bracket>[\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)


def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Compile *text* as Java would read it; for ``search``, which is Java's ``find``.

    Raises
    ------
    ConnectorOptionError
        The pattern is wrong, or uses what Python's expressions do not have.
    """
    pieces: list[str] = []
    position = 0
    in_class = False
    for token in _TOKEN.finditer(text):
        pieces.append(text[position : token.start()])
        position = token.end()
        kind = token.lastgroup
        if kind == "bracket":
            if in_class and token["bracket"] == "[":
                raise _refused(text, "a class inside a class ([a[b]])")
            in_class = token["bracket"] == "["
            pieces.append(token["bracket"])
            if in_class and text[position:].removeprefix("^").startswith("]"):
                raise _refused(text, "a ] that begins a class")
        elif kind == "intersection" and in_class:
            raise _refused(text, "an intersection of classes (&&)")
        else:
            pieces.append(_translate(token, text, in_class=in_class))
    pieces.append(text[position:])
    try:
        return re.compile("".join(pieces), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConnectorOptionError(
            f"PatternSyntaxException: {error} in subscribePattern {text!r}",
            found=text[:200],
            expected="a Java regular expression",
        ) from None


def _translate(token: re.Match[str], text: str, *, in_class: bool) -> str:
    if token["quoted"] is not None:
        return re.escape(token["quoted"])
    if token["group"] is not None:
        return f"(?P<{token['group']}>"
    if token["reference"] is not None:
        return f"(?P={token['reference']})"
    if token["posix"] is not None:
        members = _POSIX.get(token["posix"])
        if members is None:
            raise _refused(text, f"\\p{{{token['posix']}}}")
        return members if in_class else f"[{members}]"
    if token["escape"] is not None:
        if token["escape"] in "PXRGNcHVhv":
            raise _refused(text, f"\\{token['escape']}")
        # Java: \z is the very end, \Z lets a last line break follow. Topic names hold no line
        # breaks.
        return "\\Z" if token["escape"] in "zZ" else token[0]
    return token[0]


def _refused(text: str, what: str) -> ConnectorOptionError:
    return ConnectorOptionError(
        f"subscribePattern {text!r} uses {what}, which is not supported here: name the topics with "
        "subscribe",
        found=what,
        expected="what Java's and Python's regular expressions have in common",
    )
