"""What `make bench` measures: Bendybus beside a bare pipeline and beside other brokers.

Not part of the distribution and no test: nothing here fails because something was slow.
"""
