"""What Multus makes of networks annotations: inputs, and the answers of its own code (`parse.go`), kept beside them."""
