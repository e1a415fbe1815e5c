"""Floor 4: one partition's log. Rooms: directory, local, producers, loader, salvage.

Above them, in this folder, stands ``UnifiedLog`` with what reads, writes and opens it.
"""
