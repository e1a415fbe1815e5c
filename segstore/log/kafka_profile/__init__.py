"""What a log does as a broker does it, with ``recovery="kafka"``."""
