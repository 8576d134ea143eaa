"""CEL, the language of webhook conditions and of validation rules in CRD schemas: an honest subset of it."""
