"""Tools for a partition's file that no server needs: they read a backup copy of it."""
