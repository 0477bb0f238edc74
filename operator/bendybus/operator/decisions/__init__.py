"""What is to be done, and what is said of it: pure functions of manifests and facts."""
