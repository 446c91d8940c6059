"""The command line: parse → call → render. One file a command group; lanes are imported inside the commands."""
