"""A pipeline as a project: tables defined in a file, run again and again, from recordings to control tables.

settings.py      the project's folder and its settings
create.py        `penstock pipeline init`: writes a project
definitions.py   the tables, one function each: copied into a project, and changed there
catalogue.py     every table with its columns
expectations.py  conditions on rows
bronze.py        what nodes recorded
silver.py        packed events, factors, flows, effects
gold.py          allocation, reservations, health, report
decisions.py     advice and policies; new versions of control tables
plain.py         the definitions in an ordinary session
run.py           one run, by either engine
runs.py          what runs did; which files are in bronze
status.py        what waits, what the last run did, what is not as expected
"""
