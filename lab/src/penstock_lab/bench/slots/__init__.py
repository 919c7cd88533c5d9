"""In which of 64 slots was a flow: filters of slots.

lookup.py  the benchmark
rivals.py  a set or Bloom filter for each slot, and the array-major layout
"""
