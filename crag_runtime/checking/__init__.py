"""Whether a draft is borne out by what it cites, and says what was asked for. Pure."""
