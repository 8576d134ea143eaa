"""Services on secondary networks: EndpointSlices with the addresses that Pods have there."""
