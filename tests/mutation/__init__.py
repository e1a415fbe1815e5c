"""Small changes of the code, each of which some test should notice; ``make mutants``."""
