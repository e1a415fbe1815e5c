"""Java for a minute: compiled once, unverified, and a collector without threads of its own.

On two processors compiling again what a test runs a few times takes longer than the tests, and
verifying the classes of Spark and Kafka a tenth of their start.
"""

from __future__ import annotations

OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
DRIVERS = {"SPARK_SUBMIT_OPTS": OPTIONS, "SPARK_LAUNCHER_OPTS": OPTIONS}
"""For Spark's drivers in all tests, and what finds their class path; nothing is printed of it."""
ENVIRONMENT = {"JDK_JAVA_OPTIONS": OPTIONS}
"""For every Java below a process, executors too; each prints that it found them."""
