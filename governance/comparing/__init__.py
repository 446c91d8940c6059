"""How two passages are compared: what they say, how far values are apart, and which words matter. Pure."""
