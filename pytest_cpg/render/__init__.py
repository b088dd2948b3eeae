"""Render: what gates found as text, Markdown, pages, annotations and films.

Knows cards and the report, and no kind of gate. Nothing is measured or judged here.
Every session loads this alone, for the names of formats.
"""
