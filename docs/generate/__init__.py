"""Writes docs/reference, docs/pictures, and definitions and roles of the chart: `python -m docs.generate`.

Reads and renders; what it says stands in the code (help of flags, docstrings of constants, schemas, comments of
values). The same code gives the same bytes. Not part of the package `berth`.
"""
