"""The laboratory of Penstock: simulator, experiments of the papers, benchmarks, and rigs to run them on.

sim/          nodes, links and clocks in virtual time, reproducible by seed
rigs/         real processes on loopback: a node, Mosquitto, NATS, a slow link, a web site, a browser
experiments/  the papers' experiments: what a paper reports beside what Penstock does
bench/        benchmarks against a named rival in the same run
runs/         what is kept of runs, and how all of them are run
cli/          the commands `penstock bench`, `reproduce`, `sim`, `conformance` and `demo`

The package `penstock` imports nothing from here; it finds the commands at the entry points
`penstock.commands`.
"""
