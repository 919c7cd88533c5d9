"""The commands of the lab, registered at the entry points `penstock.commands`.

bench.py        `penstock bench`: the benchmarks by name
reproduce.py    `penstock reproduce`: the experiments by name
everything.py   `penstock bench all` and `penstock reproduce all`
sim.py          `penstock sim`: random runs in the simulator
conformance.py  `penstock conformance`: MQTT cases against a broker
demo.py         `penstock demo`: the tour; tour.py writes its report
"""
