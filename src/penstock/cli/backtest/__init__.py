"""`penstock backtest`: a recorded stream replayed under policies.

backtest.py  the command, and its two engines
report.py    tables, lines and the page with plots
"""
