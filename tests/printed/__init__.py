"""The commands and programs that pages print, run as printed from an installed wheel."""
