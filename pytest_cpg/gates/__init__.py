"""Gates: what is measured on both arms, and when a test may pass."""
