"""Episodes: arms in lockstep, from seeded starts to outcomes, alone, cached or spread.

An outcome depends on seed and index alone. Nothing here knows what a gate asks of it.
"""
