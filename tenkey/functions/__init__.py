"""Functions of the namespace whose signatures the schema language cannot express."""
