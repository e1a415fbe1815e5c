"""Java for a minute: quick to start, compiled once, and a collector without threads of its own.

On two processors compiling again what a test runs a few times takes longer than the tests.
"""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {"spark.driver.extraJavaOptions": OPTIONS}
"""For a session that starts its Java."""
ENVIRONMENT = {"JDK_JAVA_OPTIONS": OPTIONS}
"""For a process whose children are Java, too."""
