"""What a person sees, in a real JupyterLab and Notebook with a real kernel and a headless Chromium.

A package, so that the browser's fixtures can end with it: Playwright's synchronous interface keeps a loop running on
its thread, next to which no asynchronous test could run.
"""
