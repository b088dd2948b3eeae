"""Tasks of the DeepMind Control suite: the only room that imports dm_control and mujoco."""
