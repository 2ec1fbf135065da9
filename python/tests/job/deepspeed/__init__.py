"""A package with the shape of DeepSpeed's pipeline engine, for jobs in tests: nothing of it is DeepSpeed's."""

__version__ = "0.0.test"
