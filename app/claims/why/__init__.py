"""Why claims, their templates and classes, and Pods with claims are as they are."""
