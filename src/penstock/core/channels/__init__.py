"""Web channels: a URL as a stream. Who polls it and how often, what may be fetched now, what has changed."""
