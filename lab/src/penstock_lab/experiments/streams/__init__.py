"""Reliable streams under failures.

kill.py           the experiment `streams-kill`: kill -9 in rounds, then judge every file
processes.py      nodes and clients as processes that can be killed and started again
programs.py       the programs of publishers, subscribers and readers
spark_program.py  the Spark query that reads the stream
sweep.py          many simulated fault runs, in this process or as Spark tasks
"""
