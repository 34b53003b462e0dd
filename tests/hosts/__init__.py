"""Where chatnb is shown: kernels of each regime of delivery, and stubs of hosts that are not installed here."""
