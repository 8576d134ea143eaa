"""The controller that creates, watches, retries and deletes the objects of AppWrappers."""
