"""Whether Spark and Ray, with the lines of docs/scale.md, find what one call finds.

    pip install pyspark ray
    python benchmarks/engines.py [spark] [ray] [--rows 100000]

A forest of 15 trees, 13 partitions, witnesses included; one machine.
"""

import argparse
import os
import sys

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Certifier

N_TRAIN, N_PARTITIONS = 4_000, 13
FEATURES = [f"c{i}" for i in range(10)]


def by_spark(frame, work):
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    schema = spark.createDataFrame(work(frame.head(5))).schema
    rows = spark.createDataFrame(frame).repartition(N_PARTITIONS)
    return rows.mapInPandas(lambda parts: (work(part) for part in parts), schema).toPandas()


def by_ray(frame, work):
    import ray

    ray.init(num_cpus=2, include_dashboard=False)
    rows = ray.data.from_pandas(frame).repartition(N_PARTITIONS)
    return rows.map_batches(work, batch_format="pandas").to_pandas()


def is_same(a, b):
    return np.array_equal(a, b, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a.astype(str), b.astype(str))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=["spark", "ray"])
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    X, y = make_classification(N_TRAIN + options.rows, len(FEATURES), random_state=0)
    frame = pd.DataFrame(X, columns=FEATURES)
    forest = RandomForestClassifier(15, max_depth=5, random_state=0).fit(frame[:N_TRAIN], y[:N_TRAIN])
    frame = frame.assign(label=y)[N_TRAIN:].assign(id=range(options.rows))
    certifier = Certifier(forest, Attacker("linf", 0.02), witness=True)

    def work(part):
        return certifier(part[FEATURES], part["label"]).assign(id=part["id"].to_numpy())

    expected = work(frame)
    for engine in options.engines:
        found = {"spark": by_spark, "ray": by_ray}[engine](frame, work).sort_values("id")
        differing = [name for name in expected if not is_same(expected[name].to_numpy(), found[name].to_numpy())]
        print(f"{engine}: {len(found):,} rows, {expected.shape[1]} columns, different: {differing or 'none'}")


if __name__ == "__main__":
    main()
