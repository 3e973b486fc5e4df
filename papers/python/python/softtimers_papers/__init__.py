"""The papers behind softtimers, on a simulated machine: ``softtimers.sim``, ``softtimers.plot`` and ``softtimers.cluster``.

The package ``softtimers`` shows these modules under its own name, where both are installed.
"""
