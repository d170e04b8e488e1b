"""The hostile campaign: millions of inputs that are wrong on purpose, counted by what becomes of them.

``python -m tests.campaign`` goes on where it was stopped. A surface is a file here; an input is a function of the seed,
the surface and a number, so that each can be tried again alone.
"""
