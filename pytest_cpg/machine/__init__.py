"""Machine: processes, executors, files and time limits.

Knows neither tasks nor models: whatever runs or keeps something goes through here.
"""
