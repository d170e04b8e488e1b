"""Experiments that `cwnet reproduce` runs, from data to the page with its results; `catalogue` lists them."""
