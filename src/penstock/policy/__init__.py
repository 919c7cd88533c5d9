"""The policy language: a receiver says which events may be dropped when its queue is full.

paths.py        attribute paths
params.py       kinds of filter parameters
filters.py      the catalogue of filters
digesters.py    the catalogue of digesters
nodes.py        a policy as values
attributes.py   payload bytes to attributes
verdicts.py     the reference meaning of each filter
evaluate.py     the reference meaning of a policy
predicates.py   questions about one event: `pulse > 120`
content.py      content filters: which events are wanted at all
columns/        the same meaning on numpy arrays
text/           YAML, JSON, XML and Python
explain.py      a policy in plain words
lint.py         warnings about a valid policy
schema.py       a JSON Schema for editors
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.policy.columns.plan import Plan
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.text.forms import parse, to_json, to_python, to_xml, to_yaml
    from penstock.policy.text.python_form import drop, keep, policy, when

__all__ = [
    "Plan",
    "Policy",
    "Step",
    "drop",
    "keep",
    "parse",
    "policy",
    "to_json",
    "to_python",
    "to_xml",
    "to_yaml",
    "when",
]

_MODULES: Final = {
    "Plan": "penstock.policy.columns.plan",
    "Policy": "penstock.policy.nodes",
    "Step": "penstock.policy.nodes",
    "drop": "penstock.policy.text.python_form",
    "keep": "penstock.policy.text.python_form",
    "parse": "penstock.policy.text.forms",
    "policy": "penstock.policy.text.python_form",
    "to_json": "penstock.policy.text.forms",
    "to_python": "penstock.policy.text.forms",
    "to_xml": "penstock.policy.text.forms",
    "to_yaml": "penstock.policy.text.forms",
    "when": "penstock.policy.text.python_form",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
