"""Packing one queue by policy.

packing.py  the benchmark: the columnar evaluator against loops
loops.py    a loop written by hand for each policy
"""
