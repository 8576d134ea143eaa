"""Requests to one API server: routing, verbs, discovery, and the words of its answers."""
