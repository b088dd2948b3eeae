"""Gymnasium environments as tasks: the only room that imports gymnasium."""
