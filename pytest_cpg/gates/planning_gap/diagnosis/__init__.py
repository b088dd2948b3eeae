"""Diagnosis: why a gap is there, from decisions taken again with both worlds at hand."""
