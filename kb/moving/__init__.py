"""Backup and move: a store as one archive, read into an empty one; an index or a ledger taken to another place."""
