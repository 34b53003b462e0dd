"""The built panel on a page of its own, with a kernel of paper: to look at, and to test what needs no real kernel."""
