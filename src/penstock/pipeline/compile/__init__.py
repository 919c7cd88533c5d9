"""The compiler from policies to Spark SQL: no Python worker sees a row.

transforms.py     `pack` and `effect`, the two transforms
fates.py          which step of the policy drops each event
verdicts.py       what a compiled filter is made of; the table of filter compilers
predicates.py     filters that look at one event
windows.py        filters that look at other events of the queue
sequential.py     filters that depend on what was kept before
java_regex.py     RE2 patterns translated for Java
sources.py        finds a policy's attributes in the columns of a frame
typed_columns.py  one attribute as columns, one for each kind of value
digests.py        digests as aggregate columns
digest_rows.py    digests between Spark rows, Python objects and the wire
events.py         rows as events for Python workers
"""
