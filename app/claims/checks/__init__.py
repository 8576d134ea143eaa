"""What the doctor checks of claims."""
