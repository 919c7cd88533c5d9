"""Penstock: publish/subscribe for streams that outrun their readers."""
