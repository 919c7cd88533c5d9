"""The four text forms of a policy: YAML, JSON and XML are read and written, Python is built and written.

forms.py         `parse` recognises the form; `to_yaml`, `to_json`, `to_xml`, `to_python` write one
tree.py          a text as a tree with line and column, and the errors that name them
from_tree.py     a policy from such a tree
short_form.py    a policy as plain mappings and lists in its shortest spelling
yaml_form.py     YAML
json_form.py     JSON
xml_elements.py  XML elements with their places
xml_form.py      the paper's XML
python_form.py   the builder `policy(drop.delta(5), ...)` and its source text
"""
