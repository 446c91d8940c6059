"""Runs the jobs: by schedule in a daemon, or one at a time. Imports nothing by itself."""
