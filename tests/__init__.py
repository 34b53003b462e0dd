"""The tests, a folder for each chapter of the specification in `tests/spec`."""
