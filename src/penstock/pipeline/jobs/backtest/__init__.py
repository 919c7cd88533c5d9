"""Replays every queue of a recorded stream under candidate policies; `core.backtest` has the cores.

replay.py   the Spark job
local.py    the same in this process, for recordings of up to some million events; imports no Spark
rows.py     rows of an Arrow table as events, as `pipeline.compile` reads them
plots.py    latency, loss, levels and errors as plots
"""
