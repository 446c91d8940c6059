"""What of the passages matters: likely strips, table cells, values, and where trusted passages disagree. Pure."""
