"""The driver of a test, to be killed: it maintains a directory, and prints how far it is.

Arguments: the master, the directory, the time, a pattern of topics, whether Spark speculates. The
last line is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import segstore.spark


def main() -> None:
    master, path, now, pattern, speculation = sys.argv[1:]
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.task.maxFailures": "100",
        "spark.speculation": speculation,
    }
    spark = segstore.spark.session("maintain", master=master, **settings)
    spark.sparkContext.setLogLevel("OFF")
    from segstore.spark import job_runner, jobs

    job_runner.POLL_SECONDS = 0.05

    def progress(_: str, done: int, total: int) -> None:
        print("done", done, total, flush=True)

    report = jobs.maintain(spark, path, now=int(now), subscribePattern=pattern, progress=progress)
    print(json.dumps(report.to_dict()), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
