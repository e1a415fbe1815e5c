"""From what a crash left to a log: recovery of both profiles, and its report."""
