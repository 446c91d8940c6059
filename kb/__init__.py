"""The foundation: words, trust maths, seams, the ledger and its index. Knows no lane."""
