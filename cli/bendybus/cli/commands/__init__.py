"""The commands: what each is called, its options, and how it ends."""
