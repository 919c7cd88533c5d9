"""The congestion experiments of Pietzuch and Bhola (2003) on reliable streams.

measures.py  rates, recovery and fairness of a run
plots.py     the pictures
collapse.py  collapse without congestion control (Figures 2 to 4)
e1.py        a link fails and comes back (Figures 7 and 8)
e2.py        an alternating bottleneck (Figures 9 to 11)
e3.py        nine nodes, a bottleneck and a failure at once (Figures 12 to 15)
e4.py        recovery time by Δt_rec (Figure 16), and fairness
live/        E1 and E2 between real nodes
"""
