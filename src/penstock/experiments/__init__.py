"""The papers' experiments, run on our own machines: what they found beside what we find.

`outcome` is the shape every experiment returns, `report` its page for people, `catalogue` the list behind
`penstock reproduce`; the other modules are one experiment each.
"""
