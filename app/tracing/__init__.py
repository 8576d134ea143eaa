"""W3C trace context: whose trace a request belongs to; and spans, where OpenTelemetry is installed and wanted."""
