"""The papers' figures and tables as plots: the module of the package ``softtimers-papers``, which is installed by itself."""

import sys

try:
    from softtimers_papers import plot
except ModuleNotFoundError as error:
    if error.name != "softtimers_papers":
        raise
    raise ModuleNotFoundError(
        "softtimers.plot is in the package softtimers-papers; from a clone: pip install ./papers/python", name=__name__
    ) from None

sys.modules[__name__] = plot
