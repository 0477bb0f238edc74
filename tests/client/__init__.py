"""Tests of the client, against a small front end in the same process."""
