"""cwnet inside TopoBench: a lifting by rings, a CIN backbone and a readout per rank. README.md says how to use it."""
