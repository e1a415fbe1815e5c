"""What can be proven of a damaged log, copied into another one."""
