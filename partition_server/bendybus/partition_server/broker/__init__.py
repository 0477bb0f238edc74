"""A partition and the thread that runs it: commands wait in an inbox, answers leave as replies."""
