"""Speed as ratios: each figure is segstore against a physical limit or a peer, measured in the same run."""
