"""Runs of experiments and benchmarks: how all of them are started, and what is stored of each.

shows.py       what an experiment or a benchmark declares: its paper and figures, live or simulated
stored.py      when, where and from what a run was made; the files that keep runs
table.py       rows of experiments and benchmarks in one table
markdown.py    stored runs in Markdown
pages.py       the pages of measurements and of what the papers found, and blocks of guides
papers.py      the papers' figures and tables
everything.py  every run in a process of its own, within a time; a failure does not stop the others
"""
