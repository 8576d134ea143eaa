"""WING: network data of Pods in the status of ResourceClaims (KEP-4817), and networks as claims."""
