"""Machine: processes, executors, files, locks and time limits.

Knows neither tasks nor models nor pytest: whatever runs or keeps something goes through here.
"""
