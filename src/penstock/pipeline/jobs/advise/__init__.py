"""Proposes a policy that meets a budget on a recorded stream.

advice.py   splits the stream, searches levels, checks the proposal on the rest
profile.py  measures the stream, in one Spark job
levels.py   chooses levels from a profile; no Spark
measure.py  measures levels with the compiled policy
variants.py variants that say what is urgent and how long an event may wait
verdict.py  whether the proposal is worth having, beside two baselines
"""
