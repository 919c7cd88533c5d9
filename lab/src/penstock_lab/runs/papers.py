"""The figures and tables of the four papers that show a finding; drawings and listings are left out.

What was found here comes from stored runs, whose rows name their figure. A figure without a row says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure or table of a paper."""

    paper: str
    figure: str
    shows: str
    why_not: str = ""
    """Why nothing here repeats it; empty for those that some experiment or benchmark is about."""

    @property
    def name(self) -> str:
        """Paper and figure, as rows name them."""
        return f"{self.paper}, {self.figure}"


TITLES: Final = {
    "PACK": "Chen and Kotz, Application-Controlled Loss-Tolerant Data Dissemination (PACK), 2004",
    "Gryphon": "Pietzuch and Bhola, Congestion Control in a Reliable Scalable Message-Oriented Middleware "
    "(Gryphon), 2003",
    "Corona": "Ramasubramanian, Peterson and Sirer, Corona: A High Performance Publish-Subscribe System for "
    "the World Wide Web, 2006",
    "RBF": "Jin and others, Using RBF to Enable Circuit Emulation Service over Internet",
}
"""Name of a paper's system → its authors and title."""

FIGURES: Final = (
    PaperFigure("PACK", "Figure 7", "latency with and without queues that have policies, 1 to 16 receivers"),
    PaperFigure("PACK", "Figure 8", "latency, loss and packs before a slow link, beside drop-tail"),
    PaperFigure("PACK", "Figure 9", "delay from an attach request to the first event that waited"),
    PaperFigure("PACK", "Figure 11", "an hour of a locator of devices: levels, intervals, filters"),
    PaperFigure("Gryphon", "Figure 2", "collapse after a link is restricted: rates"),
    PaperFigure("Gryphon", "Figure 3", "collapse after a link is restricted: the queue before it"),
    PaperFigure("Gryphon", "Figure 4", "collapse after a link failure: rates"),
    PaperFigure(
        "Gryphon",
        "Table 1",
        "parameters of the two control protocols",
        "a table of settings: the simulator and the nodes take them as defaults",
    ),
    PaperFigure("Gryphon", "Figure 7", "E1: rates with congestion control after a link failure"),
    PaperFigure("Gryphon", "Figure 8", "E1: the NACK window while a node recovers"),
    PaperFigure("Gryphon", "Figure 9", "E2: publication follows a bottleneck that changes"),
    PaperFigure("Gryphon", "Figure 10", "E2: the queue before the bottleneck"),
    PaperFigure("Gryphon", "Figure 11", "E2: doubt horizon rates in the alerts that reach the publisher"),
    PaperFigure("Gryphon", "Figure 13", "E3: rates under a bottleneck and a link failure, nine nodes"),
    PaperFigure("Gryphon", "Figure 14", "E3: how fast the node behind the failed link recovers"),
    PaperFigure("Gryphon", "Figure 15", "E3: alerts of nodes that recover and of those that do not"),
    PaperFigure("Gryphon", "Figure 16", "E4: time to recover by the threshold Δt_rec"),
    PaperFigure(
        "Corona",
        "Table 1",
        "the optimisation problems of Corona's variants",
        "definitions: `penstock allocate --scheme` solves them, and Table 2 compares them",
    ),
    PaperFigure("Corona", "Figure 3", "load on servers over time"),
    PaperFigure("Corona", "Figure 4", "mean time to detect an update over time"),
    PaperFigure("Corona", "Figure 5", "pollers of each channel"),
    PaperFigure("Corona", "Figure 6", "detection time of each channel"),
    PaperFigure("Corona", "Table 2", "detection time and load of all variants"),
    PaperFigure("Corona", "Figure 7", "detection time by update interval: Lite and Fair"),
    PaperFigure("Corona", "Figure 8", "detection time by update interval: Fair-Sqrt and Fair-Log"),
    PaperFigure("Corona", "Figure 9", "the deployment on 60 machines: detection time"),
    PaperFigure("Corona", "Figure 10", "the deployment on 60 machines: load"),
    PaperFigure(
        "RBF",
        "Table 1",
        "names of the filters by their arrays and groups of functions",
        "names, no measurement: all of them are built, and `penstock bench slots` measures them side by side",
    ),
    PaperFigure("RBF", "Table 2", "what is done with a packet by flow, place and reservation"),
    PaperFigure("RBF", "Figure 5", "cost of a query by the number of arrays"),
    PaperFigure("RBF", "Figure 6", "storage that the spare takes"),
    PaperFigure("RBF", "Figure 7", "false positives under bursts, by the number of arrays"),
)
