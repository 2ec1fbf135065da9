"""Lowgear under Slurm: what prolog, epilog, task prolog and task epilog do. Python 3.8 and its library alone."""
