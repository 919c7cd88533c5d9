"""Every setting of a node, and the ways from a file to settings and back.

amounts.py        types of numeric settings, with bounds and units; amounts such as `10min`
schema.py         the configuration; slots.py, channels.py, notify.py, streams.py: sections of it
decode.py         from YAML text to settings, by msgspec; reports all problems with their places
problems.py       a problem with a setting; checks of single values
checks.py         checks of a whole configuration; notify_checks.py, slot_checks.py and stream_checks.py: of
                  these sections
certificates.py   loads the certificate files that settings name
read.py           reads a configuration file: decode, resolve paths, check
reload.py         which changed settings a running node can apply; whether files have changed
write.py          settings as rows for the reference, and as YAML without secrets
"""
