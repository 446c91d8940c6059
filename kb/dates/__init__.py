"""What texts say of time, in English and Chinese: periods, their words, and whether they are the asked ones. Pure."""
