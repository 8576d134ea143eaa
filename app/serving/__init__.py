"""What every server of ours stands on: connections that are accepted and bounded, TLS that follows its files."""
