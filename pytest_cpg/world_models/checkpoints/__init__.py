"""Checkpoints: model files of other programs, read without running what they hold.

Each optional reader is imported by one module alone.
"""
