"""Periods that texts name, in English and Chinese: pure."""
