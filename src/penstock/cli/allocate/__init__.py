"""`penstock allocate`: poll intervals of channels for a load or for a delay.

allocate.py  the command
engines.py   reads files of channels and solves with numpy or on Spark
report.py    what the command prints
"""
