"""Reviews of AppWrappers: defaults, rules, and what their users have to be allowed."""
