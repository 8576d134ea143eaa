"""What the doctor checks of control switches, attachments and the Pods that use them."""
