"""Makes `format("penstock")` known to Spark: it looks for modules of such a name, and takes their source.

So no session has to be told of the format, neither on Connect nor inside a declarative pipeline. The class
itself is `penstock.pipeline.connector.data_source.Penstock`.
"""

from __future__ import annotations

from penstock.pipeline.connector.data_source import Penstock


class DefaultSource(Penstock):
    """The source and sink of reliable streams, under the name that Spark looks for."""
