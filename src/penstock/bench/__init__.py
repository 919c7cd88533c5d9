"""Benchmarks: our figures beside a named rival's, measured in the same run, as ratios.

`outcome` is the shape every benchmark returns, `timing` how time is taken, `catalogue` the list behind
`penstock bench`; the other modules are one benchmark each.
"""
