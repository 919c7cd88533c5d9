"""Every setting of a node, and the ways from a file to settings and back.

amounts.py        types of numeric settings, with bounds and units; amounts such as `10min`
schema.py         the configuration; slots.py, channels.py, notify.py, streams.py, cluster.py:
                  sections of it, those of slots and notify with their checks
decode.py         from YAML text to settings, by msgspec; reports all problems with their places
problems.py       a problem with a setting; checks of single values
checks.py         checks of a whole configuration; stream_checks.py and cluster_checks.py: of these sections
certificates.py   loads the certificate files that settings name
access_file.py    the file of users and rules that a node changes by itself
read.py           reads a configuration file: decode, resolve paths, check
reload.py         which changed settings a running node can apply; whether files have changed
write.py          settings as rows for the reference, as JSON Schema, and as YAML without secrets
"""
