"""CEL, the language of webhook conditions and of validation rules in CRD schemas: a subset that reports its limits."""
