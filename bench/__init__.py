"""Measures Berth's webhook against a floor and against kopf, in one run, as ratios: `python -m bench`."""
