"""Report: what the gates of a session found, as one document, and the accepted results beside it.

Nothing here prints: `render` turns the document into text and pages.
"""
