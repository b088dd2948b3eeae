"""Gymnasium: environments of users and of the registry, as tasks.

The only room that imports gymnasium.
"""
