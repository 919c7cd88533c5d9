"""Contexts: nodes by name.

`store` has the file of contexts, `target` finds out which node a command speaks to, `command` is
`penstock context`.
"""
