"""Packing on Spark.

packing.py        the benchmark: compiled policies against SQL and pandas
streaming.py      the same on a stream
pandas_rivals.py  the events, and the policies as pandas functions
sql_rivals.py     the policies as SQL
"""
