"""Benchmarks: measured by `make bench`, never asserted by a test."""
