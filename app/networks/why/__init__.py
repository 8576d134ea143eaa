"""Why Pods have their networks or not, and what is wrong with attachments."""
