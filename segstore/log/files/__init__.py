"""Every small file of a partition or log directory: its format, how it is read and written."""
