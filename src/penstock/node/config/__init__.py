"""Every setting of a node, and the ways from a file to settings and back.

schema.py  every setting with its default, unit and bounds; amounts such as `10min`
decode.py  from YAML text to settings; goes on after a problem and reports all of them
checks.py  settings that cannot work together, and warnings
certificates.py  loads the certificate files that settings name
read.py    a configuration file read, resolved and checked
channels.py, notify.py  settings of web channels and of notifications; notify_checks.py, their checks
reload.py  which changed settings a running node takes; whether the files have changed
write.py   settings as rows for the reference, and as YAML without secrets
"""
