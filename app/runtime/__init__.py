"""The composition root: builds each role out of the modules below it, starts it in order and stops it in reverse."""
