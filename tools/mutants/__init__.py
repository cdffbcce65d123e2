"""Breaks the package on purpose, one small fault at a time, and runs the tests that have to notice it.

The faults are those in ``lists/``, a file for each folder of the package.
"""
