"""Causal worlds: what causes what in them is known, after Ke et al. (NeurIPS 2021 datasets track).

Weighted blocks push lighter ones; in chemistry an object's colour depends on those of its parents.
"""
