"""Rendering: records to text, without any input or output of its own."""
