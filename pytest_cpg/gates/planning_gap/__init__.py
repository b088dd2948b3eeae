"""Planning gap: how many starts a learned model loses against the true dynamics, and why.

The Counterfactual Planning Gap from its marker to its card. Other kinds do not look in here.
"""
