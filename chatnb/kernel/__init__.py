"""The notebook side: what the kernel, its streams, its namespace and its user's objects are to chatnb.

It owns the `Host` port's kernel implementation, the capture of a call's output, object summaries, variables by name,
`run_code` and the magics (spec/notebook.md). IPython is imported inside functions alone.
"""

from __future__ import annotations

from chatnb.kernel.capture import capture
from chatnb.kernel.host import current_host
from chatnb.kernel.outputs import Outputs

__all__ = ["Outputs", "capture", "current_host"]
