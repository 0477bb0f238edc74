"""Black-box tests: load through shared clients, faults from a seed, a history, and its checker.

`history` records every operation with its outcome; `checking` is pure and judges a history;
`nemesis` draws faults from a seed; `load` speaks to the bus; `running` puts one run together and
`python -m tests.chaos` (make chaos) runs many seeds and prints a table. What a message may do
is stated in `checking`, and nowhere else.
"""
