"""Why rules, what they make, and the objects of tenants are as they are."""
