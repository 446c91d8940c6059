"""The pages, one file a subject."""
