"""Policy comparison: how often a model is wrong about which of two policies is better.

And whether its confidence tells when. Other kinds do not look in here.
"""
