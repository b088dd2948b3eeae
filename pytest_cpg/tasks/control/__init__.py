"""Control: tasks of the DeepMind Control suite.

The only room that imports dm_control, and MuJoCo to simulate with.
"""
