"""Gates: the questions about a world model, each a kind of its own.

A kind measures, judges and fills in a card; how one is shown or asked for stands above.
"""
