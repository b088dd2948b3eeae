"""Ensembles: learned worlds that imagine side by side, whose disagreement is a confidence.

Numpy alone steps and binds them; only `networks`, `model` and `training` import torch.
"""
