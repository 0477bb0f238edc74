"""Files of other programs, read into manifests of a bus, with a report on each field."""
