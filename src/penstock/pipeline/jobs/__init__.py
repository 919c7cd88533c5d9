"""Jobs that commands run on Spark.

backtest/      replays recorded queues under candidate policies
advise/        proposes a policy for a recorded stream and a budget
allocation.py  poll intervals of millions of channels
flows.py       flows of constant rate in recorded arrivals
generate/      synthetic streams
"""
