"""What the network data of the devices of a Pod is, and what writes it."""
