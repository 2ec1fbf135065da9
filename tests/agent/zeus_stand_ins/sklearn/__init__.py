"""Stands in for scikit-learn."""
