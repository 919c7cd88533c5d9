"""The policy language: which events matter, said by the receiver.

`nodes` is the language as values, `filters` and `digesters` its two vocabularies; `yaml_form`, `xml_form` and
`builder` are three ways to write it, `read` makes values of what they found; `evaluate` is what a policy
means, `fast` the same for full queues in a hurry.
"""
