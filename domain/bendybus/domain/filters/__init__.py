"""Rules of subscriptions: which messages a subscription takes, and what its copies look like.

Belongs here: the rule language (SQL filters and actions, correlation filters), rules, and the
index over all rules of a topic. Does not belong here: protobuf, storage, subscriptions themselves.
"""
