"""What lies in a partition directory beside the segments: names, checkpoints, markers, locks."""
