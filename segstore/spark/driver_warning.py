"""How the data source says what is no error."""

from __future__ import annotations

import warnings


def warn(text: str) -> None:
    """Say something where a user of Spark sees it: on the standard error of the process."""
    warnings.warn(text, stacklevel=3)
