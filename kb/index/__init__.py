"""The Milvus index: what retrieval searches, a projection of the ledger that can be rebuilt at any time.

`schema`, `validate` and `filters` decide (pure). `milvus` holds collections on any Milvus, through `connection`. `lite`
and `supervisor` run the embedded one: a single server process that all processes of a data directory share.
"""
