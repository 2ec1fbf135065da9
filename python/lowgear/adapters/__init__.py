"""Marks for training jobs that know nothing of Lowgear: what `lowgear run -- COMMAND` and `import lowgear.auto` load.

Each adapter observes one framework by replacing functions of it once their module is imported; the pages of
docs/attaching.md have tables of versions and functions. No exception of Lowgear reaches a job or changes what it computes.
"""
