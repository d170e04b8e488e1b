"""cwnet inside TopoBench: a lifting by rings, a CIN backbone and a readout per rank. See README.md beside this package."""
