"""What arrays of ``tenkey.numpy`` do: operators, methods, and access to their memory."""
