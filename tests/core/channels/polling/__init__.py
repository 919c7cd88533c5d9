"""The deciders of polling."""
