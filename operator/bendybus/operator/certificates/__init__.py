"""Certificate authorities and certificates: issued, rotated, renewed."""
