"""Experiments that `cwnet reproduce` runs: one file each, from data to the page with its results."""

from cwnet.experiments import flow

__all__ = ["flow"]
