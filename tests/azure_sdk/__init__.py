"""The tests of azure-servicebus itself, from its source distribution, unmodified, on a bus of ours.

Here is what they expect around them, what is known to fail and why, and the command that runs them.
Nothing of their text is here.
"""
