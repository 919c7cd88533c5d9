"""The API of channels: `routes.py` has values and routes, `handlers.py` answers."""
