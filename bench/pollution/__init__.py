"""The pollution benchmark: facts change, poison arrives, answers are written back; every policy must keep answering."""
