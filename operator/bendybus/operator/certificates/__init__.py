"""Certificate authorities and certificates: made, handed on, renewed."""
