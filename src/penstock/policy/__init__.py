"""The policy language: which events matter, said by the receiver.

`nodes` is the language as values, `filters` and `digesters` its two vocabularies, `params` and `paths` what
their arguments may be. `read` and `write` are the doors to its texts: each form (YAML, JSON, XML) has a
module `…_form` that finds a located `tree` in a text and a module `…_text` that writes one; `from_tree` makes
a policy of any tree. `builder` writes policies in Python. `explain`, `lint` and `schema` are for people and
editors. `payload` and `attributes` read events; `evaluate` is what a policy means, `fast` the same sooner.
"""
