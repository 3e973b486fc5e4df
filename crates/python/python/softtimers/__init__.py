"""Microsecond timers for Python on Linux.

``softtimers.asyncio`` is an event loop for asyncio whose timers come on time, and pacing for what a program sends.
``softtimers.sim`` has the papers' experiments on a simulated machine, where the package ``softtimers-papers`` is installed.
"""
