"""Floor 4: one partition's log.

Rooms, from the ground up: files, local, producers, loader, check, salvage, kafka_profile.

Above them, in this folder, stands ``UnifiedLog`` with what reads, writes and opens it.
"""
