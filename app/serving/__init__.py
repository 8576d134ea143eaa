"""The base of all servers in Berth: accepts connections and limits their number; TLS that follows its files."""
