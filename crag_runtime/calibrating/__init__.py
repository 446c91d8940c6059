"""How good an evaluator is on a user's own labelled pairs, and the thresholds that follow."""
