"""Why an object is as it is: one chain of causes down to what can be changed, and the command that changes it."""
