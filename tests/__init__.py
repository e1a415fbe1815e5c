"""The tests of segstore."""
