"""The name under which Spark finds the format `bendybus` by itself.

Spark imports every module `pyspark_…` at its first look for a data source: nothing heavy here.
"""

from bendybus.spark.data_source import BendybusDataSource

DefaultSource = BendybusDataSource
