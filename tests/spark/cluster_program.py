"""The driver of a test: writes, reads, counts and verifies on a cluster, and says where it ran.

Arguments: the master, Python of the executors, a folder of its own. The last line is JSON.
"""

from __future__ import annotations

import json
import sys

import segstore.spark


def whereabouts(numbers):
    """Yield who does this task, and where it has segstore from; a task takes its time."""
    import os
    import time
    from pathlib import Path

    import segstore

    time.sleep(0.5)
    for _ in numbers:
        yield os.getppid(), str(Path.cwd()), segstore.__file__, sys.executable


def main() -> None:
    master, python, folder = sys.argv[1:]
    packed = segstore.spark.pack(f"{folder}/segstore.tar.gz")
    settings = {
        **packed.conf,
        "spark.pyspark.python": python,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = segstore.spark.session("cluster", master=master, **settings)
    context = spark.sparkContext
    for _ in range(20):  # both executors, as soon as they are there
        places = context.parallelize(range(4), 4).mapPartitions(whereabouts).collect()
        if len({cwd for _, cwd, _, _ in places}) > 1:
            break
    rows = spark.range(0, 3000, 1, 4).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id * 7 AS STRING) AS value"
    )
    data = f"{folder}/data"
    sink = rows.write.format("segstore").mode("append")
    sink.options(path=data, topic="t", numPartitions=3, txnAppId="a", txnVersion=1).save()
    back = spark.read.format("segstore").options(path=data, subscribe="t", minPartitions=6).load()
    from segstore.spark import jobs

    answer = {
        "places": places,
        "sum": back.selectExpr("sum(CAST(CAST(value AS STRING) AS BIGINT))").first()[0],
        "count": segstore.spark.count(spark, data),
        "read": segstore.spark.read(spark, data, ["offset"], "offset < 10").count(),
        "verified": jobs.verify(spark, data).ok,
    }
    print(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main()
