"""What the doctor checks of RMD."""
