"""The tests of Berth: a package, so that a folder of them can have what lasts as long as its own tests."""
