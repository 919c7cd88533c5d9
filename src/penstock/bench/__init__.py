"""Benchmarks: our figures beside a named rival's, measured in the same run, as ratios.

`outcome` is the shape every benchmark returns, `timing` how time is taken, `catalogue` the list behind
`penstock bench`. `brokers` starts brokers as processes; `load` and the modules that begin with it put them
under load. The other modules are one benchmark each, with what only it needs beside it.
"""
