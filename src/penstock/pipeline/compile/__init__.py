"""The compiler from policies to Spark SQL: no Python worker sees a row.

transforms.py     `pack` and `effect`, the two transforms
queue_columns.py  key, order and schema of a frame, and the hash that orders equal rows
fates.py          the step of the policy that drops each event
verdicts.py       parts of a compiled filter; the table of filter compilers
predicates.py     filters that need one event
windows.py        filters that need other events of the queue
sequential.py     filters that depend on the events kept before
java_regex.py     RE2 patterns translated for Java
sources.py        finds a policy's attributes in the columns of a frame
attach.py         adds those attributes to a frame
json_numbers.py   numbers in JSON payloads, without parsing all of them
typed_columns.py  one attribute as columns, one for each kind of value
digests.py        digests as aggregate columns
digest_rows.py    digests between Spark rows, Python objects and the wire
events.py         rows as events for Python workers
"""
