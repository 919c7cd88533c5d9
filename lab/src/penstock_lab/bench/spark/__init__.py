"""Packing on Spark.

packing.py        the benchmark: sizes, rounds, and the rows of its table
contests.py       each policy compiled, as SQL, as pandas, and the floor
streaming.py      the same on a stream
pandas_rivals.py  the events, and the policies as pandas functions
sql_rivals.py     the policies as SQL
"""
