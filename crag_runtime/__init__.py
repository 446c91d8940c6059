"""The Corrective-RAG runtime: a question in, a governed answer out, and the store cleaner afterwards."""
