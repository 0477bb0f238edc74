"""The Helm chart of the operator, and the program that makes its generated parts."""
