"""Between domain values and the contract: conversions, and the table of errors and statuses.

Does not belong here: rules, channels, servers.
"""
