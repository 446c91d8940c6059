"""The graph's nodes, one a file: each takes the state, decides with pure functions and returns only what it changed."""
