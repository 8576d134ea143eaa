"""The composition root: builds each role out of the rooms below it, starts it in order and stops it in reverse."""
