"""`format("penstock")`: reliable streams of a node as a Spark data source.

data_source.py  the data source class, which Spark finds through `pyspark_penstock`
options.py      options and the schema of a message
readers.py      batch and streaming readers
writers.py      batch and streaming writers, exactly once
control_sink.py `format("penstock-control")`: a frame as the next version of a control table
"""
