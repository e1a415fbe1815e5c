"""A strict reader of Prometheus' text format, for counters and gauges."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,(?=.)|$)')
_HELP = re.compile(rf"# HELP ({_NAME}) ((?:[^\\\n]|\\[\\n])*)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge)")
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?[0-9]+)")
_ESCAPES = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


class Family(NamedTuple):
    """The samples of one name, by their labels."""

    kind: str
    samples: dict[tuple[tuple[str, str], ...], int]


def read_prometheus_text(text: str) -> dict[str, Family]:
    """Return the families of a text; raise AssertionError where it is malformed."""
    families: dict[str, Family] = {}
    helped, current = "", ""
    assert text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if (found := _HELP.fullmatch(line)) is not None:
            helped = found[1]
        elif (found := _TYPE.fullmatch(line)) is not None:
            current = found[1]
            assert current == helped
            assert current not in families, "the samples of a name follow each other"
            assert found[2] == "gauge" or current.endswith("_total")
            families[current] = Family(found[2], {})
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == current, line
            labels = _labels(sample[2] or "")
            assert labels not in families[current].samples, line
            families[current].samples[labels] = int(sample[3])
    return families


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    found, position = [], 0
    while position < len(text):
        label = _LABEL.match(text, position)
        assert label is not None, text
        found.append((label[1], re.sub(r"\\.", lambda one: _ESCAPES[one[0]], label[2])))
        position = label.end()
    return tuple(found)
