"""Binding: whatever a user calls a model, made into the contract that planners ask.

Torch models, callables, latent and recurrent models meet a task here; files are read elsewhere.
"""
