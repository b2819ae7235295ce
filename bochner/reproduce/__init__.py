"""The experiments of the paper from one command, ``bochner reproduce``: rows of results, and tables and figures of rows."""
