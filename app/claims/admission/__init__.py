"""Reviews of claims: what others have written in statuses, compared with the networks of Pods."""
