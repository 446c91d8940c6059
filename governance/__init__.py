"""Keeps the memory trustworthy: plans, applies and undoes what happens to memories. Imports nothing by itself."""
