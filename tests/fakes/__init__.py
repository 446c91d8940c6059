"""Real classes that stand in for outside services."""
