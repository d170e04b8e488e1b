"""Colour refinement: the cellular Weisfeiler–Lehman test and its relatives."""
