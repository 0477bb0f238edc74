"""Builders: one pure function per child object of a bus; `children.all_of` lists them in order."""
