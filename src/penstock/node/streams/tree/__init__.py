"""The tree of nodes that streams flow through: the driver of the core, hosted streams, links to neighbours.

- `driver`: passes messages, timers and events between the core of streams and the node.
- `hosted`: a stream that is published at this node.
- `directory`: which streams the node knows, and where they come from; the parts that links, subscriptions and
  programs share.
- `link`: the queue and the connection to one neighbour, and the state of the link.
- `offers`: which streams come from which neighbour, and which are offered to it.
- `links`: all neighbours: connects to them, accepts their connections, joins links to the core.
"""
