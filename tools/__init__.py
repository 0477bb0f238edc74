"""Tools of developers that no other room owns; `make` runs them."""
