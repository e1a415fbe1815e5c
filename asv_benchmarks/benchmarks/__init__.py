"""Speed as ratios.

Each figure is segstore against a physical limit or a peer, measured in the same run.
"""
