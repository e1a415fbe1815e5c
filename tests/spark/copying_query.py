"""A streaming query in a process of its own, to be killed: ``copying_query.py MASTER SOURCE …``.

It copies one topic to another and prints a line for each micro-batch that is done.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    master, source, sink, checkpoint, codec, most = sys.argv[1:]
    import segstore.spark

    conf = {"spark.sql.streaming.pollingDelay": "5ms", "spark.driver.memory": "600m"}
    conf |= {"spark.executor.memory": "600m", "spark.task.maxFailures": "20"}
    spark = segstore.spark.session("copy", master=master, **conf)
    spark.sparkContext.setLogLevel("OFF")
    frame = (
        spark.readStream.format("segstore")
        .options(path=source, subscribe="numbers", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=most, minPartitions="3")
        .load()
    )
    query = (
        frame.select("key", "value", "timestamp")
        .writeStream.format("segstore")
        .options(path=sink, checkpointLocation=checkpoint, topic="copy", numPartitions="3")
        .options(**{"compression.type": codec, "batch.size": "2000"})
        .trigger(availableNow=True)
        .start()
    )
    told = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > told:
            told = progress["batchId"]
            print("batch", told, flush=True)
        time.sleep(0.02)
    if query.exception() is not None:
        print("failed", query.exception(), flush=True)
        sys.exit(1)
    print("all", flush=True)


if __name__ == "__main__":
    main()
