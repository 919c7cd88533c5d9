"""The policy language: a receiver says which events may be dropped when its queue is full.

paths.py        attribute paths
params.py       kinds of filter parameters
filters.py      the catalogue of filters
digesters.py    the catalogue of digesters
nodes.py        a policy as values
attributes.py   payload bytes to attributes
evaluate.py     the reference meaning of a policy
columns/        the same meaning on numpy arrays
text/           YAML, JSON, XML and Python
explain.py      a policy in plain words
lint.py         warnings about a valid policy
schema.py       a JSON Schema for editors
"""
